"""Which range the integer inputs of the original are drawn from: found by running it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from evo.errors import TaskInvalid
from evo.interop.adopt.draft_parts import TensorDraft
from evo.interop.adopt.draft_trial import DraftTrial
from evo.interop.adopt.fills import has
from evo.interop.adopt.oracle import Failing
from evo.spec.element_types import DTYPES, is_float
from evo.spec.integer_distributions import range_of_dtype

_MOST = 2**62  # of 64 bits, so that a sum of two has a place
_NARROW = (2, 4, 16, 64)
_ROUNDED = 1e-5  # relative errors up to here are roundings of float32, one or a few, and vary with what is drawn
_PRECISE = 1e-2  # of the size of an output: larger errors than those of halves come from numbers that are too large
_MOST_FLAGS = 16
_ABOUT_ZERO = ("-", ("random", 0, 8), 1)  # as `fills` writes it
_MATCHED = 0.005  # of the elements of an output: integers that tell fewer are compared with something


def settle_integers(trial: DraftTrial, base: Mapping[str, int]) -> None:
    """Find what each is drawn from: flags and classes, places in order, else all of its type."""
    _narrow_integers(trial, base)
    _wake(trial, base)
    _order_offsets(trial, base)
    _loosen_offsets(trial, base)
    _mix_flags(trial, base)
    _widen_integers(trial, base, _match_integers(trial, base))


def _narrow_integers(trial: DraftTrial, base: Mapping[str, int]) -> None:
    """Draw integers below a small bound if all others give constant outputs: flags, counts, classes.

    Of several bounds the one under which the outputs differ most is taken: cells of the game of life are 0 or 1.
    """
    if _variety(trial, base) > 0.0:
        return
    whole = [tensor for tensor in trial.draft.given if _is_whole(tensor) and not tensor.drawn]
    if told := [tensor for tensor in whole if tensor.is_told]:
        for tensor in told:
            tensor.draw_as_filled("range")
        trial.changed()
        twice = {axis: 2 * length for axis, length in base.items()}
        drawn = [trial.inputs(axes) for axes in (base, twice)]
        for tensor in told:
            ends = {(int(each[tensor.name].min()), int(each[tensor.name].max())) for each in drawn}
            tensor.ends = ends.pop() if len(ends) == 1 and tensor.drawn else None  # the same at any size
        trial.changed()
        return
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


def _wake(trial: DraftTrial, base: Mapping[str, int]) -> None:
    """Draw state about zero where the kernel leaves all as it is with others: -1 for what nobody has seen yet.

    What it reads for that was not read before, so it is drawn as the host code has it.
    """
    free = [t for t in trial.draft.given if _is_whole(t) and not t.drawn and t.high is None]
    if not any(tensor.role == "inout" for tensor in free) or not _does_nothing(trial, base):
        return
    before = [(tensor, tensor.drawn, tensor.fill, tensor.high, tensor.why) for tensor in free]
    for tensor in free:
        if tensor.role == "inout":
            tensor.drawn, tensor.fill = "values", _ABOUT_ZERO
            tensor.why += ", from -1 to 6: with others nothing is done"
        elif tensor.is_told:
            tensor.draw_as_filled()
    trial.changed()
    if _does_nothing(trial, base):
        for tensor, drawn, fill, high, why in before:
            tensor.drawn, tensor.fill, tensor.high, tensor.why = drawn, fill, high, why
        trial.changed()


def _does_nothing(trial: DraftTrial, base: Mapping[str, int]) -> bool:
    """Whether the outputs are what they began with."""
    try:
        outputs, inputs = trial.run(base, races=False), trial.inputs(base)
    except (Failing, TaskInvalid):
        return False
    begun = {t.name: inputs.get(t.name, 0) for t in trial.draft.given if t.role == "inout" or t.init == "zero"}
    return all(name in begun and bool(np.all(values == begun[name])) for name, values in outputs.items())


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


def _order_offsets(trial: DraftTrial, base: Mapping[str, int]) -> None:
    """Draw where rows begin in order, from 0 to the end, if the original takes that."""
    for tensor in [tensor for tensor in trial.draft.given if tensor.may_be_offsets]:
        tensor.is_ordered = True
        trial.changed()
        if trial.runs(base, races=False):
            tensor.why += ", in order"
        else:
            tensor.is_ordered = False
            trial.changed()


def _loosen_offsets(trial: DraftTrial, base: Mapping[str, int]) -> None:
    """Draw parts of other lengths where the host code makes all alike, if the original takes that.

    Equally long at every seed, they would be no input: a kernel could have where they begin from their number.
    """
    for tensor in trial.draft.given:
        if tensor.role != "in" or not tensor.has_one_more or tensor.drawn != "values" or has(tensor.fill, "random"):
            continue
        if (np.diff(trial.inputs(base)[tensor.name].astype(np.int64)) < 1).any():
            continue  # places of something else
        tensor.is_loose = True
        trial.changed()
        drawn = [trial.inputs(base, seed)[tensor.name] for seed in range(4)]
        if all(trial.runs(base, others={tensor.name: values}) for values in drawn):
            tensor.why += ", parts longer and shorter by chance"
        else:
            tensor.is_loose = False
            trial.changed()


def _mix_flags(trial: DraftTrial, base: Mapping[str, int]) -> None:
    """Of flags that are drawn as the host code fills them, half are one that the original takes anywhere, by chance.

    The same at every seed, they would be no input: a kernel could have them from where they are.
    """
    for tensor in trial.draft.given:
        if tensor.drawn != "values" or has(tensor.fill, "random", "shuffled"):
            continue
        found = trial.inputs(base)[tensor.name]
        flags = [int(value) for value in np.unique(found)[: _MOST_FLAGS + 1]]
        if not 1 < len(flags) <= _MOST_FLAGS:
            continue
        tensor.anywhere = tuple(
            flag for flag in flags if trial.runs(base, others={tensor.name: np.full_like(found, flag)})
        )
        trial.changed()
        mixed = [trial.inputs(base, seed)[tensor.name] for seed in range(4)] if tensor.anywhere else []
        if mixed and all(trial.runs(base, others={tensor.name: values}) for values in mixed):
            tensor.why += f"; half of them {', '.join(map(str, tensor.anywhere))} anywhere"
        else:
            tensor.anywhere = ()
            trial.changed()


def _match_integers(trial: DraftTrial, base: Mapping[str, int]) -> set[str]:
    """Draw integers below a size, or a small number, if others change no output: class labels that must match.

    Returns their names.
    """
    found: set[str] = set()
    for tensor in trial.draft.given:
        is_known = tensor.high is not None or tensor.ends is not None or tensor.is_ordered or tensor.drawn
        if not _is_whole(tensor) or is_known:
            continue
        shares: dict[int | str | None, float] = {None: _told(trial, tensor, base)}
        if shares[None] >= _MATCHED:
            continue
        if tensor.is_told:
            tensor.draw_as_filled("range")
            trial.changed()
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
    return tensor.role != "out" and tensor.is_whole


def _widen_integers(trial: DraftTrial, base: Mapping[str, int], matched: Collection[str] = ()) -> None:
    """Let integers be any of their type, if they lead nowhere and the outputs stay finite.

    The reference draws 16 bits of them, which tell a wrong address as well as 32; the gate then draws from all.
    matched: those that are drawn below a bound though they lead nowhere.
    """
    for tensor in trial.draft.given:
        if (
            _is_whole(tensor)
            and tensor.ends is None
            and not _is_drawn_as_told(trial, tensor, base)
            and DTYPES[tensor.dtype] >= 4
            and (tensor.high is None or tensor.name in matched)
            and _takes_all(trial, tensor, base)
        ):
            tensor.ends = _ends(tensor)
            tensor.why += f", any {tensor.dtype}"
    trial.changed()


def _is_drawn_as_told(trial: DraftTrial, tensor: TensorDraft, base: Mapping[str, int]) -> bool:
    """Whether it is drawn as the host code fills it: where larger numbers cost precision, as angles do, now too."""
    if tensor.is_told and not tensor.drawn and (larger := _imprecision(trial, base)) > _ROUNDED:
        tensor.drawn = "range"
        trial.changed()
        is_better = larger > 2 * _imprecision(trial, base)
        tensor.drawn = ""
        if is_better:
            tensor.draw_as_filled("range")
        trial.changed()
    return bool(tensor.drawn)


def _imprecision(
    trial: DraftTrial, base: Mapping[str, int], others: Mapping[str, NDArray[np.generic]] | None = None
) -> float:
    """The largest error of float outputs, relative to their size; 0.0 if that cannot be had."""
    floats = [t.name for t in trial.draft.given if t.role != "in" and is_float(t.dtype)]
    exact = trial.run_wide(base, dict(others or {})) if floats else None
    if exact is None:
        return 0.0
    plain = trial.run(base, races=False, others=others)
    found = 0.0
    for name in floats:
        wanted = exact[name].astype(np.float64)
        with np.errstate(all="ignore"):
            size = float(np.sqrt(np.mean(np.square(wanted)))) or 1.0
            found = max(found, float(np.abs(plain[name].astype(np.float64) - wanted).max(initial=0.0)) / size)
    return found


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
            if not _imprecision(trial, base, {tensor.name: values}) <= _PRECISE:
                return False
    except (Failing, TaskInvalid):
        return False
    return True


def _patterns(drawn: NDArray[np.generic], low: int, high: int) -> Iterator[NDArray[np.generic]]:
    rng = np.random.default_rng(7)
    for values in (np.full(drawn.shape, low), np.full(drawn.shape, high), rng.integers(low, high, drawn.shape)):
        yield values.astype(drawn.dtype)
