"""All of a tensor changed at once, for conditions that many elements decide together; and parts of a tensor.

A sum of squares that is nearly one, a spread within a band: no element is compared as it lies, and no number that the
code names reaches it. But how far a comparison is from coming out otherwise is logged, so the factor is sought at which
it is nearest (the branch distance of search-based testing).
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from evo.device import Arrays
from evo.evaluate.gate.distinct_inputs import InputSpace
from evo.evaluate.gate.solved_conditions import NEAR, SolvedConditions
from evo.results.coverage import MEMORY, ConditionSource, Coverage, CoveragePoint, PointKind

Way = Callable[[NDArray[np.generic]], NDArray[np.generic]]  # to change a whole tensor

_SHARES = (0.5, 0.25, 0.125, 0.03)
_FEW = (0.0, 1.0)  # numbers that any condition may ask for
_NUMBERS = 14  # that are tried of a tensor
_OCTAVES = 24  # how far a factor goes up or down
_GOLDEN = (math.sqrt(5) - 1) / 2
_STEPS = 32  # of two octaves, to one part in a million
_WHOLE_STEPS = 8  # of whole numbers, of which a few are corrected then
_HALVINGS = 16
_UNMOVED = 1e-6
_LAST = 64  # elements that the thread which compares last is likely to read
_CORRECTED = 12  # of them, one after the other, until what is compared is equal

_DOSES, _DOSES_IN_VAIN = 160, 48  # tries to turn a condition on many elements
_UNMOVED_TRIES = 8  # that move nothing at first, and a tensor's numbers are given up
_AGAIN, _HELPED = 0.7, 6  # how often what helped is tried again, and how much of it is known
_BOTH = 0.25  # of those, with another that helped
_FAR, _EQUAL = 1e-12, 0.899  # how near numbers are that lie so far apart that no dose brings them nearer, or are equal
_DISTINCT = 4096  # of a tensor's numbers
_IN_LAST_ROW, _LESS, _AS_FAR = 0.5, 0.25, 0.3

_ALONE = 4  # registers of a condition that are set one at a time
_PROBES, _MOVED = 2, (8, 4, 16, 64, 32)  # inputs by which a count is known; of so many elements one is another

Run = Callable[[Arrays], Coverage | None]
Leaves = Callable[[Arrays], tuple[ConditionSource, ...]]


def alike(
    inputs: Arrays, coverage: Coverage, space: InputSpace, most: int
) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """Names of tensors, and what they may be: another one of their shape or its negative, of one number, sorted, of one
    sign, with equal rows or columns.
    """
    ways = {
        name: [*_others(name, inputs, space), *_STRUCTURES, *_numbers(name, coverage, space)]
        for name in space.free
        if not space.is_dealt(name)
    }
    for turn in range(min(most, max(map(len, ways.values()), default=0))):
        for name in (name for name in ways if turn < len(ways[name])):
            changed = ways[name][turn](inputs[name])
            if name in space.bounds:  # whole numbers may be stated to lie to one side of zero
                changed = np.clip(changed, *space.bounds[name])
            yield name, np.ascontiguousarray(changed).astype(inputs[name].dtype, copy=False)


def _others(name: str, inputs: Arrays, space: InputSpace) -> Iterator[Way]:
    """What another tensor is that may hold the same, and its negative: sums and differences of the two vanish."""
    own = inputs[name]
    for other in (other for other in space.free if other != name and inputs[other].shape == own.shape):
        array = inputs[other]
        if array.dtype != own.dtype or not space.fits(name, array.astype(np.float64)).all():
            continue
        if space.domains[name] == "real":
            yield lambda _, array=array: -array  # type: ignore[misc]
        yield lambda _, array=array: array  # type: ignore[misc]


def _numbers(name: str, coverage: Coverage, space: InputSpace) -> Iterator[Way]:
    """Zero, one, and the numbers that data are compared with or what lies beside them."""
    wanted = dict.fromkeys(_FEW)
    for point in coverage.points:
        sides = [side for side in (point.left, point.right) if side is not None]
        if not any(MEMORY in side.origins for side in sides):
            continue
        for value in (side.value for side in sides if side.constant and side.value is not None):
            if isinstance(value, float) == (name not in space.bounds) and np.isfinite(value):
                step = max(1.0, abs(value) / 64)
                wanted |= dict.fromkeys((value, value + step, value - step))
    for value in list(wanted)[:_NUMBERS]:
        if (fitting := space.fitted(name, value)) is not None:
            yield functools.partial(np.full_like, fill_value=fitting)


def _mirrored(array: NDArray[np.generic], axis: int, *, negative: bool = False) -> NDArray[np.generic]:
    """The second half along an axis is the first one backwards; or its negative, so that they add up to nothing."""
    at = np.arange(array.shape[axis])
    found = np.take(array, np.minimum(at, at[::-1]), axis)
    signs = np.sign(at[::-1] - at).reshape(-1, *[1] * (array.ndim - 1 - axis % array.ndim))
    return np.asarray(found * signs if negative else found)


def _transposed(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """A square at the start of the last two axes is its own transpose."""
    if array.ndim < 2:
        return array
    found, side = array.copy(), min(array.shape[-2:])
    lower = np.tril(np.ones((side, side), bool))
    square = found[..., :side, :side]
    square[...] = np.where(lower, square, np.swapaxes(square, -1, -2))
    return found


_STRUCTURES: tuple[Way, ...] = (  # first those whose elements stay apart, so that a number still tells which it is
    lambda array: _mirrored(array, -1, negative=True),
    lambda array: _mirrored(array, max(0, array.ndim - 2), negative=True),
    lambda array: _mirrored(array, -1),
    lambda array: _mirrored(array, max(0, array.ndim - 2)),
    _transposed,
    lambda array: np.sort(array, axis=-1),
    lambda array: np.sort(array, axis=-1)[..., ::-1],
    np.abs,
    lambda array: -np.abs(array),
    lambda array: np.broadcast_to(array[..., :1], array.shape),
    lambda array: np.broadcast_to(array[:1], array.shape),
)


def some_places(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Some elements of a tensor: single ones, or a stretch or some places along an axis."""
    share = rng.choice(_SHARES)
    axis = int(rng.integers(len(shape) + 1)) - 1
    if axis < 0:
        return np.asarray(rng.random(shape) < share)
    length = shape[axis]
    if rng.random() < 0.5:
        start = int(rng.integers(length))
        chosen = (np.arange(length) >= start) == (rng.random() < 0.7)
    else:
        chosen = rng.random(length) < share
    return np.broadcast_to(chosen.reshape(-1, *[1] * (len(shape) - axis - 1)), shape)


def approached(
    space: InputSpace, start: Arrays, seen: Coverage, missing: Callable[[CoveragePoint], tuple[str, ...]], run: Run
) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """Names of tensors, and what they are at the factor that turned a comparison or came nearest, with a few elements
    corrected by what is left.

    missing: outcomes that no run has had.
    """
    for at, point in enumerate(seen.points):
        if not _is_with_constant(point) or (first := _gap(point)) is None or not (wanted := missing(point)):
            continue

        def look(inputs: Arrays, at: int = at, wanted: tuple[str, ...] = wanted) -> tuple[float | None, bool]:
            """How far the comparison was from turning, by sign; whether it has turned."""
            found = run(inputs)
            if found is None:
                return None, False
            return _gap(found.points[at]), any(found.points[at].outcomes[outcome] for outcome in wanted)

        for name in (name for name in space.free if not space.is_dealt(name)):
            if (array := _nearest(space, name, start, look, abs(first))) is not None:
                yield name, _corrected(space, name, {**start, name: array}, look)


class Doses:
    """Numbers put into more or fewer places of a tensor, for conditions on how many elements are such, or on what they
    come to together. Many numbers at a time, as many of each; of those that help a half is tried, and so on.
    """

    def __init__(self, space: InputSpace, start: Arrays, coverage: Coverage, rng: np.random.Generator) -> None:
        self.rng = rng
        self._helped: list[tuple[int, NDArray[np.generic]]] = []  # of which of the numbers
        self._own: dict[str, NDArray[np.generic]] = {}
        self._numbers: list[tuple[str, NDArray[np.generic]]] = []
        for name in (name for name in space.free if not space.is_dealt(name) and start[name].size > 1):
            flat = start[name].reshape(-1)
            own = np.unique(flat if flat.size <= _DISTINCT else rng.choice(flat, _DISTINCT))
            of_code = [way(flat[:1])[0] for way in _numbers(name, coverage, space)]
            of_code = [number for number in of_code if number not in own]
            self._numbers += [(name, np.asarray(some, flat.dtype)) for some in (own, of_code) if len(some)]
            self._own[name] = own

    def climbed(self, start: Arrays, nearness: Callable[[Arrays], float]) -> Arrays:
        """The inputs found at which a condition has turned, or is nearest to turning.

        nearness: how near it is with some inputs; infinite once it has turned.
        """
        best, score, in_vain = start, nearness(start), 0
        unmoved = Counter[int]()
        for _ in range(_DOSES):
            near = score % 1 if math.isfinite(score) else 0.0
            moving = [at for at in range(len(self._numbers)) if unmoved[at] < _UNMOVED_TRIES]
            if not (_FAR < near < _EQUAL and moving) or in_vain >= _DOSES_IN_VAIN:
                break
            at, name, numbers = self._drawn(moving)
            tried = {**best, name: self._with(best[name], numbers, self._own[name], apart=NEAR / near - 1)}
            found = nearness(tried)
            unmoved[at] = unmoved[at] + 1 if found == score else -_DOSES
            in_vain += 1
            if found > score:
                best, score, in_vain = tried, found, 0
                self._helped = [*self._helped[-_HELPED:], (at, numbers)]
        return best

    def _drawn(self, moving: list[int]) -> tuple[int, str, NDArray[np.generic]]:
        """What has helped before or a half of it, or some of a tensor's own numbers or of those in the code."""
        helped = [pair for pair in self._helped if pair[0] in moving]
        if helped and self.rng.random() < _AGAIN:
            at, numbers = helped[int(self.rng.integers(len(helped)))]
            if self.rng.random() < _BOTH:  # what several conditions ask for
                other = [more for where, more in helped if where == at]
                numbers = np.union1d(numbers, other[int(self.rng.integers(len(other)))])
            count = math.ceil(len(numbers) / int(self.rng.integers(1, 3)))
        else:
            at = moving[int(self.rng.integers(len(moving)))]
            numbers = self._numbers[at][1]
            count = math.ceil(len(numbers) ** self.rng.random())
        return at, self._numbers[at][0], self.rng.choice(numbers, count, replace=False)

    def _with(
        self, array: NDArray[np.generic], numbers: NDArray[np.generic], own: NDArray[np.generic], *, apart: float
    ) -> NDArray[np.generic]:
        """The numbers in places of others, or at times others in places of theirs: anywhere, or where the threads that
        compare last are likely to read, along the last row.

        apart: how far apart what is compared is; as many places may do.
        """
        flat = array.copy().reshape(-1)
        size = array.shape[-1] if self.rng.random() < _IN_LAST_ROW else flat.size
        held = np.isin(flat[-size:], numbers)
        less = self.rng.random() < _LESS
        places = flat.size - size + np.flatnonzero(held == less)
        new = self.rng.permutation(own) if less else numbers
        few = (
            apart if self.rng.random() < _AS_FAR else math.ceil(size ** self.rng.random() / len(numbers)) * len(numbers)
        )
        few = min(len(places), math.ceil(few))
        flat[self.rng.permutation(places)[:few]] = np.resize(new, few)
        return flat.reshape(array.shape)


class Counted:
    """Which number's places a register counts, told by what it holds where numbers lie in more and in fewer places; and
    inputs in which numbers lie in as many as a condition asks for.
    """

    def __init__(self, space: InputSpace, start: Arrays, coverage: Coverage, rng: np.random.Generator) -> None:
        self.space, self.rng = space, rng
        names = (name for name in space.bounds if not space.is_dealt(name) and start[name].size > 1)
        self._numbers = {name: some for name in names if len(some := np.unique(start[name])) <= _DISTINCT}
        self._likely = {  # those in the code
            name: np.asarray([way(some[:1])[0] for way in _numbers(name, coverage, space)], some.dtype)
            for name, some in self._numbers.items()
        }
        self._numbers = {name: np.union1d(some, self._likely[name]) for name, some in self._numbers.items()}
        self._kept: dict[str, dict[int, int]] = {name: {} for name in self._numbers}  # in so many places

    def settled(
        self, start: Arrays, point: CoveragePoint, solved: SolvedConditions, leaves: Leaves
    ) -> Iterator[Arrays]:
        """Inputs in which the condition ought to have turned: first with the counts of all others as they were.

        leaves: what it follows from with other inputs.
        """
        for name, numbers in self._numbers.items():
            tried, held = [start[name]], [_of_data(point.leaves)]
            for part in _MOVED:  # many, few: the condition may lie behind another, which has to hold there too
                uneven = self._uneven(name, start[name], part)
                if len(tried) <= _PROBES and (found := _of_data(leaves({**start, name: uneven}))):
                    tried.append(uneven)
                    held.append(found)
            counts = np.array([[np.count_nonzero(array == number) for number in numbers] for array in tried]).T
            counted: dict[str, int] = {}
            for register in held[0] if len(held) > _PROBES else ():
                places = np.flatnonzero((counts == [some.get(register, -1) for some in held]).all(axis=1))
                if len(places):
                    of_code = places[np.isin(numbers[places], self._likely[name])]
                    counted[register] = int(numbers[self.rng.choice(of_code if len(of_code) else places)])
            alone = [[some] for some in counted if counted[some] not in self._kept[name]]
            for those in (*alone[:_ALONE], *([[*counted]] if counted else [])):
                wanted = solved.counts(point, those, start[name].size, self.space, self.rng)
                before, counts_then = self._kept[name], held[0] | wanted  # those that are known stay
                self._kept[name] = before | {counted[register]: counts_then[register] for register in counted}
                if wanted and (array := self._with_counts(name, start[name], self._kept[name])) is not None:
                    yield {**start, name: array}  # and no more, once it has turned
                self._kept[name] = before

    def _uneven(self, name: str, array: NDArray[np.generic], part: int) -> NDArray[np.generic]:
        """With other numbers in some places, a few or many of each; those that are kept stay."""
        flat, kept = array.copy().reshape(-1), [*self._kept[name]]
        numbers = np.setdiff1d(self._numbers[name] if self.rng.random() < 0.5 else self._likely[name], kept)
        numbers = numbers if len(numbers) else self._numbers[name]
        places = self.rng.permutation(np.flatnonzero(~np.isin(flat, kept)))[: max(2, flat.size // part)]
        flat[places] = self.rng.choice(numbers, len(places), p=self.rng.dirichlet(np.ones(len(numbers))))
        return flat.reshape(array.shape)

    def _with_counts(self, name: str, array: NDArray[np.generic], wanted: dict[int, int]) -> NDArray[np.generic] | None:
        """With each of these numbers in so many places; None if there are not as many, or no others."""
        flat = array.copy().reshape(-1)
        others = np.setdiff1d(self._numbers[name], [*wanted])
        if not len(others) or sum(wanted.values()) > flat.size:
            return None
        for number, count in wanted.items():
            there = self.rng.permutation(np.flatnonzero(flat == number))
            flat[there[count:]] = self.rng.choice(others, max(0, len(there) - count))
        for number, count in wanted.items():
            free = self.rng.permutation(np.flatnonzero(~np.isin(flat, [*wanted])))
            flat[free[: count - np.count_nonzero(flat == number)]] = number
        return flat.reshape(array.shape)


def _of_data(leaves: Sequence[ConditionSource]) -> dict[str, int]:
    return {leaf.register: leaf.bits for leaf in leaves if leaf.is_data}


def _is_with_constant(point: CoveragePoint) -> bool:
    sides = [side for side in (point.left, point.right) if side is not None]
    of_data = any(MEMORY in side.origins and not side.constant for side in sides)
    return point.kind is PointKind.COMPARISON and point.reached and of_data and any(side.constant for side in sides)


def _gap(point: CoveragePoint) -> float | None:
    """By how much the left one of the numbers that were compared last is larger."""
    assert point.left is not None
    assert point.right is not None
    values = [side.value for side in (point.left, point.right)]
    if any(value is None or not math.isfinite(value) for value in values):
        return None
    left, right = (float(value) for value in values if value is not None)
    return left - right


_Look = Callable[[Arrays], tuple[float | None, bool]]


def _corrected(space: InputSpace, name: str, inputs: Arrays, look: _Look) -> NDArray[np.generic]:
    """The tensor with some of its last elements changed until a comparison turns, each as if what is compared were
    linear in it: a sum of many numbers meets one number alone.
    """
    array = inputs[name]
    gap, turned = look(inputs)
    for place in range(array.size - 1, max(-1, array.size - 1 - _LAST), -max(1, _LAST // _CORRECTED)):
        if turned or not gap:
            break
        own, slope = float(array.reshape(-1)[place]), 1.0  # first as a term of a sum, then by what that has shown
        for _ in range(2):
            value = space.fitted(name, _clipped(space, name, own - gap / slope))
            if value is None or float(value) == own:
                break
            changed = array.copy()
            changed.reshape(-1)[place] = value
            moved, turned = look({**inputs, name: changed})
            if turned or (moved is not None and abs(moved) < abs(gap)):
                array, gap = changed, moved
                break
            if moved is None or moved == gap:
                break
            slope = (moved - gap) / (float(value) - own)
    return array


def _clipped(space: InputSpace, name: str, value: float) -> float:
    low, high = space.bounds.get(name, (-math.inf, math.inf))
    return min(max(value, low), high)


def _nearest(space: InputSpace, name: str, start: Arrays, look: _Look, first: float) -> NDArray[np.generic] | None:
    """The tensor times the factor that turns the comparison, or that comes nearest; None if no factor moves it."""
    tried: dict[float, float] = {0.0: first}

    def gap(octaves: float) -> float:
        if octaves not in tried:
            array = _scaled(space, name, start[name], octaves)
            found, turned = (None, False) if array is None else look({**start, name: array})
            tried[octaves] = -1.0 if turned else math.inf if found is None else abs(found)
        return tried[octaves]

    around = {step: gap(step) for step in (-1.0, 1.0)}
    if all(abs(value - first) <= _UNMOVED * first for value in around.values()):
        return None
    way = min(around, key=lambda step: around[step])
    middle = 0.0
    while abs(middle) < _OCTAVES and 0 <= gap(middle + way) < gap(middle):
        middle += way
    if gap(middle + way) < 0:  # just behind the edge, where a band would lie
        return _scaled(space, name, start[name], _edge(middle, middle + way, lambda octaves: gap(octaves) < 0))
    low, high = middle - 1, middle + 1
    for _ in range(_WHOLE_STEPS if name in space.bounds else _STEPS):
        if min(tried.values()) < 0:
            break
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, right) if gap(left) <= gap(right) else (left, high)
    return _scaled(space, name, start[name], min(tried, key=lambda octaves: tried[octaves]))


def _edge(outside: float, inside: float, turned: Callable[[float], bool]) -> float:
    for _ in range(_HALVINGS):
        between = (outside + inside) / 2
        outside, inside = (outside, between) if turned(between) else (between, inside)
    return inside


def _scaled(space: InputSpace, name: str, array: NDArray[np.generic], octaves: float) -> NDArray[np.generic] | None:
    values = array.astype(np.float64) * 2.0**octaves
    if name in space.bounds:
        whole: NDArray[np.generic] = np.clip(np.rint(values), *space.bounds[name]).astype(array.dtype)
        return whole
    with np.errstate(over="ignore"):
        found = values.astype(array.dtype)
    return found if np.isfinite(found.astype(np.float64)).all() else None
