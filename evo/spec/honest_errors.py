"""Errors of honest implementations at each element of an output, drawn from a trusted one.

One run of a trusted implementation says what it errs over all, and little of one element: where a sum cancels, its
roundings may happen to cancel too. So it is run again on the neighbours of the inputs, whose roundings fall otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from evo.errors import TaskInvalid
from evo.spec.blocks import BLOCK
from evo.spec.dtypes import NUMPY
from evo.spec.element_types import ROUNDOFF
from evo.spec.input_distributions import largest, perturbed
from evo.spec.tensor_arrays import Arrays, distance

Reals = dict[str, NDArray[np.float64]]

SUMMATION = 16.0  # roundings that the order of a sum may cost, where the inputs make each of them count
_DRAWS = 16
_TIE = SUMMATION * ROUNDOFF["float32"]  # relative
_ONE_OFF = 32  # elements of a row that a tie moves together, for one more a step off: what it is added to ties too
_FEWEST, _MUCH = 8, 4 << 20  # draws for outputs of that many elements, which take a reference seconds

Implementation = Callable[[Arrays], Arrays]


@dataclass(slots=True)
class HonestErrors:
    """Root mean squares of drawn errors by float output, worked out when they are first asked for.

    exact: the truth. trusted: implementations in the kernel's precision, of which an element may err as the one that
    errs most there; without one, an honest implementation is taken to be right for inputs that are one rounding of the
    outputs' type away. types: of the float inputs. outputs: the float outputs. roundoff: of the widest of them.
    """

    inputs: Arrays
    exact: Implementation
    trusted: Sequence[Implementation]
    types: Mapping[str, str]
    outputs: Sequence[str]
    roundoff: float
    _found: Reals | None = field(default=None, repr=False)
    _whole: list[Arrays] = field(default_factory=list, repr=False)

    def at_each(self) -> Reals | None:
        """By output; None if the reference takes none of the neighbours."""
        if self._found is None:
            self._found = self._drawn() if self.outputs else {}
        return self._found or None

    def are_near_ties(self, name: str, places: NDArray[np.intp], values: NDArray[np.generic]) -> bool:
        """Whether each of these whole numbers, by flat index, is what inputs give that differ by a few roundings."""
        met = np.zeros(len(places), np.bool_)
        for number, outputs in enumerate(self._whole_numbers()):
            if outputs:  # the reference takes such inputs
                met |= _as_given(outputs[name], places, values)
            if met.all():
                return True
            if number == _FEWEST and 2 * met.sum() < len(met) - 2:  # of near ties, most would be met by now
                return False
        return False

    def _whole_numbers(self) -> Iterator[Arrays]:
        """The other outputs, of the truth and of the trusted implementations, on inputs moved by at most what float32
        sums err: they differ where there is a near tie.

        In turns of opposite signs, each element by another share: two that a tie depends on seldom cancel.
        """
        yield from self._whole
        is_little = sum(values.size for values in self.inputs.values()) <= _MUCH
        implementations = (self.exact, *self.trusted)
        for number in range(len(self._whole), _DRAWS * len(implementations) if self.types else 0):
            turn, which = divmod(number, len(implementations))
            found = self._of(implementations[which], self._moved(turn)) or {}
            found = {name: found[name] for name in found if name not in self.outputs}
            if is_little:
                self._whole.append(found)
            yield found

    def _moved(self, turn: int) -> Arrays:
        # Of numbers that are nearly equal, the difference keeps its sense in the small moves alone.
        rng, most = np.random.default_rng([1, turn // 2]), _TIE * 2.0 ** -(12 * (turn // 2 % 4 == 1))
        most = -most if turn % 2 else most
        shares = {name: most * rng.uniform(-1.0, 1.0, self.inputs[name].shape) for name in self.types}
        return {**self.inputs, **{name: self.inputs[name].astype(np.float64) * (1 + by) for name, by in shares.items()}}

    def of_changed(self, change: Callable[[Arrays], Arrays]) -> HonestErrors:
        """The same for outputs that something is made of: some of their elements, or what a law makes of them."""

        def changed(implementation: Implementation) -> Implementation:
            return lambda inputs: change(implementation(inputs))

        trusted = [changed(each) for each in self.trusted]
        return replace(self, exact=changed(self.exact), trusted=trusted, _found=None, _whole=[])

    def whole_at(self, places: Mapping[str, NDArray[np.int64]]) -> HonestErrors:
        """The same for some elements of the other outputs, by their places; nothing of the floats."""
        some = self.of_changed(lambda outputs: {name: outputs[name].reshape(-1)[at] for name, at in places.items()})
        return replace(some, outputs=())

    def near(self) -> Iterator[Arrays]:
        """All outputs of the truth and of the trusted implementations on some neighbours of the inputs."""
        rng = np.random.default_rng(2)
        for _ in range(_FEWEST if self.outputs else 0):
            inputs = self._neighbours(rng)
            for implementation in (self.exact, *self.trusted):
                if (found := self._of(implementation, inputs)) is not None:
                    yield found

    def _drawn(self) -> Reals:
        sums: Reals = {}
        count = 0
        wanted = _DRAWS
        rng = np.random.default_rng(0)
        truth = None if self.trusted else self._of(self.exact, self.inputs)
        while count < wanted:
            near = self._neighbours(rng)
            there = self._of(self.exact, near)
            tried = [self._of(each, near) for each in self.trusted] or [truth]
            if there is None or not (found := [outputs for outputs in tried if outputs is not None]):
                return {}
            for name in self.outputs:
                squares = np.square(np.max([distance(here, there, name) for here in found], axis=0))
                sums[name] = squares if count == 0 else sums[name] + squares
            count += 1
            if sum(values.size for values in sums.values()) > _MUCH:
                wanted = _FEWEST
        return {name: np.sqrt(values / count) for name, values in sums.items()}

    def _neighbours(self, rng: np.random.Generator) -> Arrays:
        """Each number a step or two away in its type; for want of a trusted implementation, a rounding away.

        The largest number has no neighbour above it.
        """
        moved = dict(self.inputs)
        for name, dtype in self.types.items():
            if not self.trusted:
                moved[name] = perturbed(self.inputs[name], self.roundoff, rng)
            else:
                given = self.inputs[name].astype(np.float64)
                near = np.clip(perturbed(given, 2 * ROUNDOFF[dtype], rng), -largest(dtype), largest(dtype))
                moved[name] = np.where(np.isfinite(given), near, given).astype(NUMPY[dtype])
        return moved

    @staticmethod
    def _of(implementation: Implementation, inputs: Arrays) -> Arrays | None:
        try:
            with np.errstate(all="ignore"):
                return implementation(inputs)
        except TaskInvalid:  # a neighbour breaks a condition of the reference
            return None


def _as_given(whole: NDArray[np.generic], places: NDArray[np.intp], values: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Which of these numbers are those of an output; of a row that has nearly all of them, also those one step off.

    A zero point at a tie moves its row, and the number at the row's end by its own tie: no inputs move both, since both
    are parts of one length, but a rounded length does.
    """
    there = whole.reshape(-1)[places]
    same = np.asarray(there == values, np.bool_)
    if whole.ndim > 1 and same.sum() >= _ONE_OFF and not same.all():
        rows = places // whole.shape[-1]
        moved, others = np.bincount(rows[same], minlength=rows.max() + 1), np.bincount(rows[~same])
        few = _ONE_OFF * others <= moved[: len(others)]
        steps = np.abs(there.astype(np.float64) - values.astype(np.float64))
        same[~same] = few[rows[~same]] & (steps[~same] == 1)
    return same


def rounding_of(spread: NDArray[np.float64], share: float = 1.0) -> NDArray[np.float64]:
    """What sums in another order may err: by elements, and no less than is usual in the same row. share: of the spread.

    One draw of signs may leave an element where it was, so that its own spread says little.
    """
    if not spread.size:
        return spread
    if not spread.ndim:
        return np.asarray(SUMMATION * (spread * share), np.float64)
    rows = spread.reshape(-1, spread.shape[-1])
    found = np.empty(rows.shape)
    few = max(1, BLOCK // max(1, rows.shape[1]))
    for at in range(0, len(rows), few):
        some = rows[at : at + few] * share
        most = np.max(some, axis=-1, keepdims=True)  # squares of large numbers overflow, and would allow any error
        unit = np.where(np.isfinite(most) & (most > 0), most, 1.0)
        usual = unit * np.sqrt(np.mean(np.square(some / unit, dtype=np.float64), axis=-1, keepdims=True))
        found[at : at + few] = SUMMATION * np.maximum(some, usual)
    return found.reshape(spread.shape)
