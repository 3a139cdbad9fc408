"""Smaller cases of a problem: its sizes are reduced in several ways, as far as the module permits.

A size is reduced, tried, and restored if the module fails. Sizes of filters and strides stay. None
becomes 1: a tensor of length 1 broadcasts, and the module might then run and compute something else.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator

from evo.interop.meta_shapes import FOREIGN, ProblemRefused, Shapes, runs, shapes_of
from evo.interop.torch_reference import ResizableProblem

_KEPT = re.compile(r"KERNEL|STRIDE|PAD|DILAT|GROUP|WINDOW|^REDUCE|_DIM$|^K_?SIZE|AXIS")
_FEWEST = 3  # check cases, if the module permits
_TRIED = 8  # times a check case's elements: the largest problem that is tried on values
_SMALL = 8  # integers up to this one are more often constants of the computation than lengths
_BATCH = re.compile(r"BATCH|^B$|^BS$")
_LEVELS = (1048576, 262144, 65536, 16384, 4096, 2048, 1024, 512, 256, 128, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2)

CHECK_ELEMENTS, CHECK_FLOP = 20_000, 2_000_000
BENCH_ELEMENTS, BENCH_FLOP = 1 << 21, 1 << 28

Sizes = dict[str, int]


class ReducedSizes:
    """Legal smaller sizes of one problem. Known shapes are cached."""

    def __init__(self, problem: ResizableProblem, own: Shapes) -> None:
        self.problem, self.own = problem, own
        self.axes = dict(problem.sizes.axes)
        self._known: dict[tuple[int, ...], Shapes | None] = {tuple(self.axes.values()): own}
        self._ran: dict[tuple[int, ...], bool] = {}
        self._apart = True  # whether equal sizes may become different ones

    def without_values(self, small: Sizes) -> ReducedSizes:
        """Without the integers that get_inputs() alone uses and that change no shape: they belong to the values.

        small: sizes at which that is tried.
        """
        idle = [axis for axis in self.problem.sizes.drawn if self._same_shapes_beside(small, axis)]
        return ReducedSizes(ResizableProblem(self.problem.sizes.without(idle)), self.own) if idle else self

    def _same_shapes_beside(self, small: Sizes, axis: str) -> bool:
        value, here, seen = small[axis], self.shapes(small), False
        for other in (value + 1, value * 2, value - 1, value // 2):
            moved = self.shapes({**small, axis: other}) if 0 < other != value else None
            if moved is not None and moved != here:
                return False
            seen = seen or moved is not None
        return seen

    def shapes(self, sizes: Sizes) -> Shapes | None:
        """None if the module fails at these sizes, or computes something of another kind."""
        key = tuple(sizes.values())
        if key not in self._known:
            try:
                found: Shapes | None = shapes_of(self.problem, sizes)
            except (ProblemRefused, *FOREIGN):
                found = None
            self._known[key] = found if found is not None and self._alike(found) else None
        return self._known[key]

    def _legal(self, sizes: Sizes) -> bool:
        """Whether the module accepts these sizes; if they are small, it was run on values."""
        shapes = self.shapes(sizes)
        if shapes is None or shapes.elements > _TRIED * CHECK_ELEMENTS or shapes.flop > _TRIED * CHECK_FLOP:
            return shapes is not None
        return self._runs(sizes)

    def _runs(self, sizes: Sizes) -> bool:
        key = tuple(sizes.values())
        if key not in self._ran:
            self._ran[key] = runs(self.problem, sizes)
        return self._ran[key]

    def _alike(self, found: Shapes) -> bool:
        def kind(shapes: Shapes) -> object:
            arrays = [*shapes.arguments, *shapes.state.values(), *shapes.outputs]
            return [None if array is None else (array.dtype, len(array.dims)) for array in arrays]

        return list(found.state) == list(self.own.state) and kind(found) == kind(self.own)

    def below(self, elements: int, flop: int, value_at: Callable[[int, int], int]) -> Sizes | None:
        """The largest sizes within both limits, or None; value_at(level, position) proposes one."""

        def fits(level: int) -> bool:
            shapes = self.shapes(self._reduced(level, value_at))
            return shapes is not None and shapes.elements <= elements and shapes.flop <= flop

        best: Sizes | None = None
        # Larger sizes cost more to try, so this is a bisection; if even the smallest does not fit, all are tried.
        first = bisect_left(_LEVELS, True, key=fits) if fits(_LEVELS[-1]) else 0
        for level in _LEVELS[first:]:
            sizes = self._reduced(level, value_at)
            shapes = self.shapes(sizes)
            if shapes is not None and shapes.elements <= elements and shapes.flop <= flop and self._runs(sizes):
                return sizes
            best = sizes if shapes is not None else best
        return self._last_resort(elements, flop, best)

    def _last_resort(self, elements: int, flop: int, start: Sizes | None) -> Sizes | None:
        """Reduce the remaining sizes one after the other, largest first."""
        sizes: Sizes = dict(start or self.axes)
        for axis in sorted(sizes, key=lambda name: -sizes[name]):
            for level in _LEVELS:
                tried: Sizes = {**sizes, axis: min(sizes[axis], level)}
                if tried != sizes and self._legal(tried):
                    sizes = tried
                    found = self.shapes(sizes)
                    small = found is not None and found.elements <= elements and found.flop <= flop
                    if small and self._runs(sizes):
                        return sizes
        return None

    def _movable(self) -> Iterator[str]:
        for axis, value in self.axes.items():
            if (value > _SMALL and not _KEPT.search(axis)) or (_BATCH.search(axis) and value > 1):
                yield axis

    def _reduced(self, level: int, value_at: Callable[[int, int], int]) -> Sizes:
        movable = list(self._movable())
        wished = {axis: min(self.axes[axis], value_at(level, place)) for place, axis in enumerate(movable)}
        for axis in movable:
            if _BATCH.search(axis):
                wished[axis] = min(wished[axis], max(2, value_at(level, 0) // 8))
        together = self.axes | wished
        if self._apart and self._legal(together):
            return together
        values = list(dict.fromkeys(self.axes[axis] for axis in movable))
        tied = self.axes | {
            axis: min(self.axes[axis], value_at(level, values.index(self.axes[axis]))) for axis in movable
        }
        if self._legal(tied):
            self._apart = self._apart and self.shapes(together) is None  # otherwise the values tie them together
            return tied
        return self._one_by_one(movable, wished, level)

    def _one_by_one(self, movable: list[str], wished: Sizes, level: int) -> Sizes:
        sizes = dict(self.axes)
        for axis in sorted(movable, key=lambda name: -self.axes[name]):
            own = self.axes[axis]
            divisors = [own // part for part in range(1, own + 1) if own % part == 0 and own // part <= 2 * level][:3]
            for value in dict.fromkeys((wished[axis], *divisors, 2 * level, 4 * level)):
                tried = {**sizes, axis: value}
                if 1 < value < sizes[axis] and self._legal(tried):
                    sizes = tried
                    break
        return sizes


def even(level: int, place: int) -> int:  # noqa: ARG001 - one of several functions with this signature
    """Powers of two, and half of the way between."""
    return level


def ragged(level: int, place: int) -> int:
    """Odd, and different for each size."""
    return max(level - 1 - 2 * (place % 3), 3) | 1


def uneven(level: int, place: int) -> int:
    """Long in one size, short in the next."""
    return max(level // 2 + 1, 2) if place % 2 else level + 5


def uneven_other(level: int, place: int) -> int:
    return level + 3 if place % 2 else max(level // 2 - 1, 2)


PROFILES = {"even": even, "ragged": ragged, "long_first": uneven, "long_last": uneven_other}


def _add(found: dict[str, Sizes], reduction: ReducedSizes, elements: int, flop: int) -> None:
    for name, value_at in PROFILES.items():
        sizes = reduction.below(elements, flop, value_at) if name not in found else None
        if sizes is not None and sizes not in found.values():
            found[name] = sizes


def check_sizes(reduction: ReducedSizes) -> dict[str, Sizes]:
    """Named small cases, all different. Raises Refused if the module is large whatever its sizes."""
    found: dict[str, Sizes] = {}
    for factor in (1, 8, 64):  # the parameters alone may exceed a small case
        _add(found, reduction, factor * CHECK_ELEMENTS, factor * CHECK_FLOP)
        for share in (2, 4):  # a small problem has the same sizes in every way, until it must be smaller still
            if 0 < len(found) < _FEWEST:
                most = min(factor * CHECK_ELEMENTS, reduction.own.elements // share)
                _add(found, reduction, most, factor * CHECK_FLOP)
        if found:
            return found
    raise ProblemRefused(
        "its sizes cannot be reduced enough for a check",
        "give the sizes as constants at the top of the file, so that smaller cases can be made",
    )
