"""Which integers an imported module takes beyond those that its file draws: indices into an axis, narrow types whole.

A file that draws tokens from 0 to 999 for a table of 4096 rows, or four bits in a byte, states no range of its own.
What the module runs with is taken. Integers of 32 bits and more that are no indices stay as drawn: sums over their
whole range would overflow in honest kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from evo.spec.input_distributions import domain_of
from evo.spec.integer_distributions import fits, range_of_dtype

Arrays = dict[str, NDArray[np.generic]]
Sizes = Mapping[str, int]
Run = Callable[[Arrays, Sizes], Arrays]  # the outputs; raises what the module raises
Ends = tuple[str, str]
_FAULTS = (RuntimeError, ValueError, IndexError, TypeError)
_NARROW = 2  # bytes: types of up to this size are taken whole
_TELLING = 9  # elements from which a draw shows whether it is sorted or all different
_BEYOND = 7  # past every axis: what a module refuses there is an index


def imported_ranges(
    names: Sequence[str],
    cases: Sequence[tuple[Sizes, Arrays]],
    axes: Sequence[Mapping[str, int]],
    outputs: Mapping[str, str],
    run: Run,
) -> dict[str, Ends]:
    """Low and high of integer inputs, by name; absent where the drawn values say what is allowed.

    cases: sizes and drawn inputs; axes: all named lengths at each of them. outputs: their types.
    """
    found: dict[str, Ends] = {}
    for name in names:
        drawn = [inputs[name] for _, inputs in cases]
        telling = [values for values in drawn if values.size >= _TELLING]
        low, high = min(int(v.min()) for v in drawn), max(int(v.max()) for v in drawn)
        if any(domain_of(str(v.dtype), v) == "fixed" for v in telling) or (low >= 0 and high <= 1):
            continue  # permutations, offsets, masks
        ends = _ends(name, cases, axes, outputs, run)
        if ends is not None and int(ends[0]) <= low:
            found[name] = ends
    return found


def _ends(
    name: str,
    cases: Sequence[tuple[Sizes, Arrays]],
    axes: Sequence[Mapping[str, int]],
    outputs: Mapping[str, str],
    run: Run,
) -> Ends | None:
    dtype = str(cases[0][1][name].dtype)
    most = max(int(inputs[name].max()) for _, inputs in cases)
    past = max(max(lengths.values()) for lengths in axes) + _BEYOND
    own = range_of_dtype(dtype)
    if past > own.high or all(_takes(name, (0, past), case, outputs, run) for case in cases):
        whole = (own.low, own.high)
        if own.high < 2 ** (8 * _NARROW) and all(_takes(name, whole, case, outputs, run) for case in cases):
            return str(own.low), str(own.high)
        return None
    for axis in sorted(axes[0], key=lambda word: -sum(lengths[word] for lengths in axes)):
        if all(most < lengths[axis] for lengths in axes) and all(
            _takes(name, (0, lengths[axis] - 1), case, outputs, run) for lengths, case in zip(axes, cases, strict=True)
        ):
            return "0", f"{axis} - 1"
    return None


def _takes(name: str, ends: tuple[int, int], case: tuple[Sizes, Arrays], outputs: Mapping[str, str], run: Run) -> bool:
    """Whether the module runs with both ends and with values between them, and its outputs keep their meaning."""
    sizes, inputs = case
    kind, shape = inputs[name].dtype, inputs[name].shape
    mixed = np.random.default_rng(0).integers(*ends, shape, dtype=np.int64, endpoint=True)
    for values in (np.full(shape, ends[0]), np.full(shape, ends[1]), mixed):
        try:
            found = run({**inputs, name: values.astype(kind)}, sizes)
        except _FAULTS:
            return False
        for output, array in found.items():
            if array.dtype.kind in "iu" and not fits(array, outputs[output]):
                return False
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                return False
    return True
