"""Which range the integer inputs of the original are drawn from: found by running it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from evo.errors import TaskInvalid
from evo.interop.adopt.draft_parts import TensorDraft
from evo.interop.adopt.oracle import Failing
from evo.interop.adopt.trial import DraftTrial
from evo.spec.element_types import DTYPES, is_float
from evo.spec.integer_distributions import range_of_dtype

_MOST = 2**62  # of 64 bits, so that a sum of two has a place
_NARROW = (2, 4, 16, 64)
_MATCHED = 0.005  # of the elements of an output: integers that tell fewer are compared with something


def narrow_integers(trial: DraftTrial, base: Mapping[str, int]) -> None:
    """Draw integers below a small bound if all others give constant outputs: flags, counts, classes.

    Of several bounds the one under which the outputs differ most is taken: cells of the game of life are 0 or 1.
    """
    if _variety(trial, base) > 0.0:
        return
    whole = [tensor for tensor in trial.draft.given if _is_whole(tensor)]
    free = [tensor for tensor in whole if tensor.high is None]
    found: dict[int, float] = {}
    for bound in _NARROW if free else ():
        _bound(trial, free, bound)
        found[bound] = _variety(trial, base)
    best = max(found, key=lambda bound: found[bound], default=None)
    if best is None:
        return
    _bound(trial, free, best if found[best] > 0.0 else None)
    if found[best] > 0.0:
        for tensor in free:
            tensor.why += f", below {best}: larger ones give constant outputs"


def _bound(trial: DraftTrial, tensors: Iterable[TensorDraft], high: int | None) -> None:
    for tensor in tensors:
        tensor.high = high
        tensor.ends = None if high is None else (0, high - 1)
    trial.changed()


def _variety(trial: DraftTrial, base: Mapping[str, int]) -> float:
    """Share of the elements that are not the most frequent value of their output; 0.0 if the original fails."""
    try:
        outputs = trial.run(base, races=False)
    except (Failing, TaskInvalid):
        return 0.0
    shares = [1.0 - np.unique(values, return_counts=True)[1].max() / values.size for values in outputs.values()]
    return float(max(shares, default=0.0))


def order_offsets(trial: DraftTrial, base: Mapping[str, int]) -> None:
    """Draw where rows begin in order, from 0 to the end, if the original takes that."""
    for tensor in [tensor for tensor in trial.draft.given if tensor.may_be_offsets]:
        tensor.is_ordered = True
        trial.changed()
        try:
            trial.run(base, races=False)
        except (Failing, TaskInvalid):
            tensor.is_ordered = False
            trial.changed()
        else:
            tensor.why += ", in order"


def match_integers(trial: DraftTrial, base: Mapping[str, int]) -> set[str]:
    """Draw integers below a size, or a small number, if others change no output: class labels that must match.

    Returns their names.
    """
    found: set[str] = set()
    for tensor in trial.draft.given:
        if not _is_whole(tensor) or tensor.high is not None or tensor.ends is not None or tensor.is_ordered:
            continue
        shares: dict[int | str | None, float] = {None: _told(trial, tensor, base)}
        if shares[None] >= _MATCHED:
            continue
        bounds: tuple[int | str, ...] = (*base, *_NARROW)
        for bound in bounds:
            tensor.high = bound
            trial.changed()
            shares[bound] = _told(trial, tensor, base)
        best = max(shares, key=lambda bound: shares[bound])
        tensor.high = best
        trial.changed()
        if best is not None:
            tensor.why += f", mostly below {best}: hardly any other value changes an output"
            found.add(tensor.name)
    return found


def _told(trial: DraftTrial, tensor: TensorDraft, base: Mapping[str, int]) -> float:
    """Share of the elements of an output that change when these integers are drawn again; 0.0 if the original fails."""
    try:
        first = trial.run(base, races=False)
        again = trial.run(base, races=False, others={tensor.name: trial.inputs(base, seed=8)[tensor.name]})
    except (Failing, TaskInvalid):
        return 0.0
    return max((float(np.mean(values != again[name])) for name, values in first.items()), default=0.0)


def _is_whole(tensor: TensorDraft) -> bool:
    return tensor.role != "out" and tensor.dtype != "bool" and not is_float(tensor.dtype)


def widen_integers(trial: DraftTrial, base: Mapping[str, int], matched: Collection[str] = ()) -> None:
    """Let integers be any of their type, if they lead nowhere and the outputs stay finite.

    The reference draws 16 bits of them, which tell a wrong address as well as 32; the gate then draws from all.
    matched: those that are drawn below a bound though they lead nowhere.
    """
    for tensor in trial.draft.given:
        if (
            _is_whole(tensor)
            and tensor.ends is None
            and DTYPES[tensor.dtype] >= 4
            and (tensor.high is None or tensor.name in matched)
            and _takes_all(trial, tensor, base)
        ):
            tensor.ends = _ends(tensor)
            tensor.why += f", any {tensor.dtype}"
    trial.changed()


def _ends(tensor: TensorDraft) -> tuple[int, int]:
    own = range_of_dtype(tensor.dtype)
    return max(own.low, -_MOST), min(own.high, _MOST)


def _takes_all(trial: DraftTrial, tensor: TensorDraft, base: Mapping[str, int]) -> bool:
    """Whether the original runs with both ends of the type, and with what is between them."""
    drawn = trial.inputs(base)[tensor.name]
    try:
        for values in _patterns(drawn, *_ends(tensor)):
            outputs = trial.run(base, races=False, others={tensor.name: values})
            if not all(np.isfinite(v.astype(np.float64)).all() for v in outputs.values() if v.dtype.kind not in "iub"):
                return False
    except (Failing, TaskInvalid):
        return False
    return True


def _patterns(drawn: NDArray[np.generic], low: int, high: int) -> Iterator[NDArray[np.generic]]:
    rng = np.random.default_rng(7)
    for values in (np.full(drawn.shape, low), np.full(drawn.shape, high), rng.integers(low, high, drawn.shape)):
        yield values.astype(drawn.dtype)
