"""The arithmetic of a NumPy formula as formulas over the axes, for `work.flop` and `work.exp` of a new task.

The formula is run on arrays that count: each arithmetic operation once for each element, a matrix product twice for
each pair that it multiplies, exponentials and similar functions separately. Axes have different prime lengths while it
runs, which identify them; a second set of lengths must give the counts that the formulas predict.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from evo.interop.task_folder import TensorLine
from evo.spec.element_types import is_float
from evo.spec.expr import parse

_PRIMES = ((11, 17, 23, 31, 41, 53, 61, 73), (13, 19, 29, 37, 43, 47, 59, 67))
_FREE = {
    "negative",
    "positive",
    "absolute",
    "fabs",
    "copysign",
    "isnan",
    "isfinite",
    "isinf",
    "signbit",
    "floor",
    "ceil",
}
_EXPONENTIAL = {"exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sinh", "cosh", "sin", "cos", "tan"}
_MOVING = """where concatenate stack reshape transpose flip roll take take_along_axis pad zeros_like ones_like full_like
empty_like broadcast_to expand_dims squeeze swapaxes moveaxis repeat tile tril triu diag diagonal split array_split
atleast_1d atleast_2d ravel hstack vstack rollaxis broadcast_arrays argmax argmin asarray asanyarray shape ndim size
result_type copy""".split()  # noqa: SIM905
_OF_UFUNCS = "mean sum amax max amin min var std prod clip all any square nan_to_num round".split()  # noqa: SIM905

Shape = tuple[int, ...]


class Uncounted(Exception):
    """A function without a known count."""


def work_of(
    formulas: Iterable[str],
    inputs: Sequence[TensorLine],
    axes: Sequence[str],
    known: Mapping[str, object] | None = None,
) -> dict[str, str]:
    """`flop`, and `exp` if there is any, as formulas. known: other names that they use. Raises Uncounted with why."""
    if len(axes) > len(_PRIMES[0]):
        raise Uncounted("it has too many axes")
    lengths = [dict(zip(axes, primes, strict=False)) for primes in _PRIMES]
    texts = list(formulas)
    counted, again = (_counted(texts, inputs, sizes, known or {}) for sizes in lengths)
    names = _names(inputs, lengths[0])
    found = {kind: _text(counted[kind], names) for kind in ("flop", "exp")}
    for kind, text in found.items():
        total = sum(math.prod(shape) * times for shape, times in again[kind].items())
        if parse(text, path="<work>").value(lengths[1]) != total:
            raise Uncounted("its lengths do not follow from the axes alone")
    return {kind: text for kind, text in found.items() if kind == "flop" or text != "0"}


def _names(inputs: Sequence[TensorLine], lengths: Mapping[str, int]) -> dict[int, str]:
    names = {length: axis for axis, length in lengths.items()}
    for tensor in inputs:
        for dim in tensor.shape:
            names.setdefault(int(parse(dim, path=tensor.name).value(lengths)), f"({dim})")
    return names


def _text(counted: Counter[Shape], names: Mapping[int, str]) -> str:
    sums: Counter[str] = Counter()
    for shape, times in counted.items():
        factor, words = times, []
        for length in shape:
            if length in names and length > 1:
                words.append(names[length])
            elif length < min(_PRIMES[0]):
                factor *= length
            else:
                raise Uncounted(f"a length of {length} is not one of its axes")
        sums[" * ".join(sorted(words))] += factor
    parts = [f"{times} * {word}" if word and times > 1 else word or str(times) for word, times in sums.items()]
    return " + ".join(parts) or "0"


def _counted(
    formulas: Sequence[str], inputs: Sequence[TensorLine], lengths: Mapping[str, int], known: Mapping[str, object]
) -> dict[str, Counter[Shape]]:
    rng = np.random.default_rng(0)
    counts: dict[str, Counter[Shape]] = {"flop": Counter(), "exp": Counter()}
    arrays = {}
    for tensor in inputs:
        shape = [int(parse(dim, path=tensor.name).value(lengths)) for dim in tensor.shape]
        values = rng.random(shape) + 0.5 if is_float(tensor.dtype) else rng.integers(0, 8, shape)
        arrays[tensor.name] = _wrapped(values.astype(bool) if tensor.dtype == "bool" else values, counts)
    for formula in formulas:
        try:
            with np.errstate(all="ignore"):
                eval(formula, {"np": np, **known, **arrays, **lengths})
        except (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError) as error:
            raise Uncounted(f"it does not run at other sizes: {type(error).__name__}") from None
    return counts


class _Counting(np.ndarray[Any, Any]):
    """An array whose operations are counted in `counts`, which all arrays of one formula share."""

    counts: dict[str, Counter[Shape]]

    def __array_finalize__(self, other: object) -> None:
        self.counts = getattr(other, "counts", None) or {"flop": Counter(), "exp": Counter()}

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **named: Any) -> Any:
        plain = [_plain(value) for value in given]
        result = getattr(ufunc, method)(*plain, **{key: _plain(value) for key, value in named.items()})
        name = ufunc.__name__
        if any(np.asarray(value).dtype.kind == "f" for value in plain) and name not in _FREE:
            shape = np.shape(result) if method in ("__call__", "outer") else np.shape(plain[0])
            if name in ("matmul", "vecdot"):
                self.counts["flop"][(*shape, np.shape(plain[0])[-1])] += 2
            else:
                self.counts["exp" if name in _EXPONENTIAL else "flop"][shape] += 1
        return _wrapped(result, self.counts)

    def __array_function__(self, function: Any, types: Any, given: Any, named: Any) -> Any:
        name = function.__name__
        if name == "dot":
            return _product(self.counts, np.matmul, *given)
        if name == "einsum":
            return _einsum(self.counts, *given, **named)
        if name in ("cumsum", "cumprod"):
            self.counts["flop"][np.shape(_plain(given[0]))] += 1
            return _wrapped(function(*map(_plain, given), **named), self.counts)
        if name not in _MOVING and name not in _OF_UFUNCS:
            raise Uncounted(f"the operations of np.{name} are not known")
        return _wrapped(super().__array_function__(function, types, given, named), self.counts)

    def dot(self, other: Any, out: Any = None) -> Any:  # noqa: ARG002 - as ndarray's
        return _product(self.counts, np.matmul, self, other)

    def cumsum(self, *given: Any, **named: Any) -> Any:
        return np.cumsum(self, *given, **named)


def _product(counts: dict[str, Counter[Shape]], multiply: Callable[..., Any], left: Any, right: Any) -> Any:
    if np.ndim(_plain(left)) > 2 or np.ndim(_plain(right)) > 2:
        raise Uncounted("np.dot of more than two dimensions: write it with @ or np.einsum")
    return multiply(_wrapped(_plain(left), counts), right)


def _einsum(counts: dict[str, Counter[Shape]], subscripts: Any, *arrays: Any, **named: Any) -> Any:
    if not isinstance(subscripts, str) or "." in subscripts:
        raise Uncounted("np.einsum without letters for all dimensions")
    lengths: dict[str, int] = {}
    for word, array in zip(subscripts.replace(" ", "").split("->")[0].split(","), arrays, strict=True):
        lengths.update(zip(word, np.shape(_plain(array)), strict=True))
    counts["flop"][tuple(lengths.values())] += 2 if len(arrays) > 1 else 1
    return _wrapped(np.einsum(subscripts, *map(_plain, arrays), **named), counts)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(_plain(inner) for inner in value)
    return value.view(np.ndarray) if isinstance(value, _Counting) else value


def _wrapped(value: Any, counts: dict[str, Counter[Shape]]) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(_wrapped(inner, counts) for inner in value)
    found = np.asarray(value).view(_Counting)
    found.counts = counts
    return found
