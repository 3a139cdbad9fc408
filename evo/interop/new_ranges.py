"""Which integers a formula of `evo new` can take: the whole type if its results fit theirs, an index if it is one.

The formula is run on integers of every candidate range, at sizes that tell the axes apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from evo.interop.task_folder import TensorLine
from evo.spec.element_types import is_float
from evo.spec.expr import parse
from evo.spec.integer_distributions import fits, range_of_dtype

Arrays = dict[str, NDArray[np.generic]]
Sizes = Mapping[str, int]
# The outputs at some sizes; raises what the formula raises, ValueError if a shape is another than declared.
Run = Callable[[Arrays, Sizes], Arrays]
_FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_MOST_TRIED = 200  # combinations of ranges
_NARROWEST = 2  # bits


def with_ranges(
    inputs: Sequence[TensorLine], outputs: Sequence[TensorLine], axes: Sequence[str], cases: Sequence[Sizes], run: Run
) -> tuple[TensorLine, ...]:
    """The inputs with a range for each integer one that states none; as they are if no range works."""
    free = [tensor for tensor in inputs if _is_integer(tensor) and tensor.low is None and tensor.high is None]
    whole = {tensor.dtype: range_of_dtype(tensor.dtype) for tensor in free}
    own = {tensor.name: (str(whole[tensor.dtype].low), str(whole[tensor.dtype].high)) for tensor in free}
    if not free:
        return tuple(inputs)
    found = next((bounds for bounds in _candidates(free, own, axes, cases) if _runs(inputs, bounds, cases, run)), None)
    if found is None:
        return tuple(inputs)
    found = _narrowed(inputs, outputs, found, own, cases, run)
    return tuple(
        TensorLine(t.name, t.role, t.dtype, t.shape, t.domain, *found[t.name]) if t.name in found else t for t in inputs
    )


Bounds = dict[str, tuple[str, str]]


def _candidates(
    free: Sequence[TensorLine], own: Bounds, axes: Sequence[str], cases: Sequence[Sizes]
) -> Iterator[Bounds]:
    """Whole types first; then indices into axes, long ones first, since a shorter one would also run."""
    longest = sorted(axes, key=lambda axis: -sum(case[axis] for case in cases))
    options = [[own[t.name], *((("0", f"{axis} - 1")) for axis in longest)] for t in free]
    for chosen in itertools.islice(itertools.product(*options), _MOST_TRIED):
        yield dict(zip((t.name for t in free), chosen, strict=True))


def _runs(inputs: Sequence[TensorLine], bounds: Bounds, cases: Sequence[Sizes], run: Run) -> bool:
    try:
        for case in cases:
            for pattern in ("low", "high", "random"):
                run(_drawn(inputs, bounds, case, pattern), case)
    except _FAULTS:
        return False
    return True


def _narrowed(
    inputs: Sequence[TensorLine],
    outputs: Sequence[TensorLine],
    bounds: Bounds,
    own: Bounds,
    cases: Sequence[Sizes],
    run: Run,
) -> Bounds:
    """Halved until signed results fit their type, which has no wrap-around that a kernel could rely on."""
    signed = [t for t in outputs if t.dtype.startswith("int")]
    while signed and not all(_fit(inputs, signed, bounds, case, run) for case in cases):
        wide = {name: ends for name, ends in bounds.items() if ends == own[name] and int(ends[1]) >= 2**_NARROWEST}
        if not wide:
            break
        for name, (low, high) in wide.items():
            half = (str(-(-int(low) // 2) if int(low) else 0), str(int(high) // 2))
            bounds[name] = own[name] = half
    return bounds


def _fit(inputs: Sequence[TensorLine], signed: Sequence[TensorLine], bounds: Bounds, case: Sizes, run: Run) -> bool:
    for pattern in ("low", "high", "random"):
        found = run(_drawn(inputs, bounds, case, pattern), case)
        if not all(fits(np.asarray(found[tensor.name]), tensor.dtype) for tensor in signed):
            return False
    return True


def _drawn(inputs: Sequence[TensorLine], bounds: Bounds, case: Sizes, pattern: str) -> Arrays:
    rng = np.random.default_rng(0)
    return {t.name: sample(t, case, rng, bounds.get(t.name), pattern) for t in inputs}


def sample(
    tensor: TensorLine, case: Sizes, rng: np.random.Generator, ends: tuple[str, str] | None, pattern: str = "random"
) -> NDArray[np.generic]:
    """An input as the reference sees it: reals in float64, integers in int64, within the ends or the declared range."""
    shape = [int(parse(dim, path=f"tensor {tensor.name}").value(case)) for dim in tensor.shape]
    if is_float(tensor.dtype):
        return rng.standard_normal(shape)
    if tensor.dtype == "bool":
        return rng.random(shape) < 0.5
    low, high = bounds_at(tensor, case, ends)
    if pattern != "random":
        return np.full(shape, low if pattern == "low" else high, np.int64)
    return rng.integers(low, high, shape, dtype=np.int64, endpoint=True)


def bounds_at(tensor: TensorLine, case: Sizes, ends: tuple[str | None, str | None] | None = None) -> tuple[int, int]:
    """The least and the largest value at one case."""
    low, high = ends or (tensor.low, tensor.high)
    own = range_of_dtype(tensor.dtype)
    return (
        own.low if low is None else int(parse(low, path=f"tensor {tensor.name}").value(case)),
        own.high if high is None else int(parse(high, path=f"tensor {tensor.name}").value(case)),
    )


def _is_integer(tensor: TensorLine) -> bool:
    return not is_float(tensor.dtype) and tensor.dtype != "bool"
