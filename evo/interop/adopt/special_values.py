"""Special values of which an original makes what it likes: another order, or zeros around, gives another result.

Finite inputs that are turned round along an axis, or that have zeros around them, may give the same outputs. If a NaN
or an infinity among them does not, then what the original makes of it is an accident of its order, or of a product with
zero that it leaves out, and no variant can be held to it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evo.device import Arrays
from evo.errors import TaskInvalid
from evo.interop.adopt.draft_parts import TensorDraft
from evo.interop.adopt.draft_trial import DraftTrial
from evo.interop.adopt.host_numbers import factors, written
from evo.interop.adopt.oracle import Failing
from evo.interop.adopt.task_texts import value_of
from evo.spec.dtypes import NUMPY
from evo.spec.element_types import ROUNDOFF, is_float
from evo.spec.expr import parse

Array = NDArray[np.generic]

_VALUES = {"infinities": (np.inf, -np.inf), "nan": (np.nan,)}
_MOST = 1 << 13  # elements of a case: there are many runs of it
_AROUND = (2, 16)  # zeros on either side: of a kernel with strides, a multiple of them
_CLOSE = 1e-4  # of sums in another order, relative to the largest output


@dataclass(frozen=True)
class _Change:
    """Other inputs that keep the outputs, but for where these stand. turned: axes. around: zeros on either side."""

    axes: Mapping[str, int]
    turned: frozenset[str] = frozenset()
    axis: str = ""
    around: int = 0

    def inputs(self, parts: Mapping[str, Sequence[object]], given: Arrays, sizes: Mapping[str, int]) -> Arrays:
        return {name: self._of(parts[name], values, sizes) for name, values in given.items()}

    def _of(self, factors_of: Sequence[object], values: Array, sizes: Mapping[str, int]) -> Array:
        shaped = values.reshape([value_of(written(part), sizes) for part in factors_of])
        shaped = np.flip(shaped, tuple(at for at, part in enumerate(factors_of) if part in self.turned))
        if self.around:
            shaped = np.pad(shaped, [(self.around * (part == self.axis),) * 2 for part in factors_of])
        return np.ascontiguousarray(shaped)

    def back(self, factors_of: Sequence[object], values: Array) -> Array:
        """An output as it would stand without the change."""
        shaped = values.reshape([value_of(written(part), self.axes) for part in factors_of])
        shaped = np.flip(shaped, tuple(at for at, part in enumerate(factors_of) if part in self.turned))
        if self.around:
            inner = slice(self.around, -self.around)
            shaped = shaped[tuple(inner if part == self.axis else slice(None) for part in factors_of)]
        return np.asarray(shaped).reshape(-1)


@dataclass
class _Asked:
    """One case of a draft that is asked what it makes of special values."""

    trial: DraftTrial
    sizes: Mapping[str, int]
    parts: dict[str, list[object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = self.trial.draft.given
        self.parts = {t.name: [part for dim in t.dims or [1] for part in factors(dim)] for t in given}
        self.floats = [t for t in given if t.role != "in" and is_float(t.dtype)]

    def undefined_specials(self) -> Iterator[tuple[str, str]]:
        """Inputs, each with a kind of special values that has no meaning there."""
        drawn = self.trial.inputs(self.sizes)
        plain = self._run(drawn, self.sizes)
        changes = [(change, kept) for change in self._changes() if (kept := self._kept(change, drawn, plain))]
        for tensor in self.trial.draft.given:
            for kind, values in _VALUES.items() if tensor.name in drawn and is_float(tensor.dtype) else ():
                if any(self._is_undefined(changes, given) for given in self._with(drawn, tensor, values)):
                    yield tensor.name, kind

    def _is_undefined(self, changes: Sequence[tuple[_Change, list[TensorDraft]]], given: Arrays) -> bool:
        try:
            before = self._run(given, self.sizes)
            return any(len(self._same(change, kept, given, before)) < len(kept) for change, kept in changes)
        except Failing:  # a place that follows from the value: the original itself cannot take it
            return True

    def _with(self, drawn: Arrays, tensor: TensorDraft, values: Sequence[float]) -> Iterator[Arrays]:
        """The value as the first element; and at the beginning and the end of rows by turns."""
        length = value_of(written(self.parts[tensor.name][-1]), self.sizes)
        for value in values if not tensor.positive else values[:1]:
            for rows in (False, True):
                changed = drawn[tensor.name].astype(NUMPY[tensor.dtype]).reshape(-1, length)
                changed[: None if rows else 1 : 2, 0] = value
                changed[1 : None if rows else 1 : 2, -1] = value
                yield {**drawn, tensor.name: changed}

    def _changes(self) -> Iterator[_Change]:
        texts = {written(part) for parts in self.parts.values() for part in parts} - set(self.sizes)
        mixed = frozenset[str]().union(*(parse(text).names for text in texts))
        free = [axis for axis, length in self.sizes.items() if axis not in mixed and length > 1]
        ways = [{axis} for axis in free] + [set(pair) for pair in itertools.combinations(free, 2)] + [set(free)]
        for way in dict.fromkeys(map(frozenset, ways)):
            yield _Change(self.sizes, turned=way)
        for axis, around in itertools.product(free, _AROUND):
            yield _Change({**self.sizes, axis: self.sizes[axis] + 2 * around}, axis=axis, around=around)

    def _kept(self, change: _Change, drawn: Arrays, plain: Arrays) -> list[TensorDraft]:
        """The outputs that finite inputs show to be kept."""
        if not change.turned and math.prod(change.axes.values()) > 16 * _MOST:
            return []
        try:
            return self._same(change, self.floats, drawn, plain)
        except (Failing, TaskInvalid):
            return []

    def _same(
        self, change: _Change, tensors: Sequence[TensorDraft], given: Arrays, before: Arrays
    ) -> list[TensorDraft]:
        """The outputs that are as before once the change is undone."""
        after = self._run(change.inputs(self.parts, given, self.sizes), change.axes)
        found = []
        for tensor in tensors:
            values = change.back(self.parts[tensor.name], after[tensor.name]).astype(np.float64)
            wanted = before[tensor.name].reshape(-1).astype(np.float64)
            size = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0))
            room = max(_CLOSE, 8 * ROUNDOFF[tensor.dtype])
            with np.errstate(invalid="ignore"):
                if np.allclose(values, wanted, rtol=room, atol=room * size, equal_nan=True):
                    found.append(tensor)
        return found

    def _run(self, given: Arrays, sizes: Mapping[str, int]) -> Arrays:
        found = self.trial.run_wide(sizes, others=given)
        return found if found is not None else self.trial.run(sizes, races=False, others=given)


def undefined_specials(
    trial: DraftTrial, cases: Sequence[Mapping[str, int]], say: Callable[[str], None]
) -> dict[str, tuple[str, ...]]:
    """By input, the kinds of special values that mean nothing in it."""
    sized = {sum(a.size for a in trial.inputs(axes).values()): axes for axes in cases}
    few = sorted(size for size in sized if size <= _MOST)
    found: dict[str, set[str]] = {}
    for number, size in enumerate(dict.fromkeys(few[:1] + few[-1:])):
        say(f"looking at NaN and infinities ({number + 1} of {len({*few[:1], *few[-1:]})})")
        for name, kind in _Asked(trial, sized[size]).undefined_specials():
            found.setdefault(name, set()).add(kind)
    return {name: tuple(kind for kind in _VALUES if kind in kinds) for name, kinds in found.items()}
