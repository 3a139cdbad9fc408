"""Runs the draft on the simulator: sizes that no allocation tells, roles, check cases, and how accurate it is.

The original decides: a shape that it cannot take is no check case, a buffer that it reads before anything wrote to it
is an input, an index that leads outside is drawn from a narrower range.
"""

from __future__ import annotations

import itertools
import math
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evo.device import POISON_LARGE, POISON_NAN, Arrays, BenchCase, SampleRequest
from evo.errors import TaskInvalid
from evo.evaluate.gate.mismatches import poisoned
from evo.interop.adopt.device_code import without_warning
from evo.interop.adopt.draft import SMALL_SIZE, Draft
from evo.interop.adopt.draft_parts import TensorDraft
from evo.interop.adopt.index_bounds import narrower
from evo.interop.adopt.indexed_tensors import draw_distinct, drawn_as_counts, drawn_as_indices, take_larger
from evo.interop.adopt.oracle import Failing, Runner, refusal, widened
from evo.interop.adopt.task_texts import Figures, all_elements, elements, inputs_text, task_yaml, variant_text
from evo.results import Fault, FaultKind
from evo.spec.element_types import DTYPES
from evo.spec.task import Case, Task, read_task

_MULTIPLES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_REPAIRS = 24
_WARNED = re.compile(r'original\.cu:(\d+): warning #(\d+)-D: [^"]*+(?:"(\w+)")?')
_RUN_BUDGET = 400_000_000
_MOST_ELEMENTS = 1 << 28  # of a tensor: 2 GiB as it is drawn
_MOST_BYTES = 1 << 26  # of outputs that are kept
_FEW_ELEMENTS, _MANY_ELEMENTS = 1 << 19, 1 << 23  # of all tensors of a check case
_LONG_WORK = 2_000_000.0  # warp instructions of a check case, which each variant runs several times
_SEED = 7


@dataclass
class DraftTrial:
    """A draft that is tried. say: told what is done, for long work."""

    draft: Draft
    name: str
    say: Callable[[str], None] = lambda _: None
    notes: list[str] = field(default_factory=list)
    _runner: Runner | None = None
    _wide: Runner | None = None
    _candidates: dict[str, list[list[object]]] = field(default_factory=dict)
    _worst: Failing | None = None
    _may_leave: bool = True
    _raced: Failing | None = None  # at sizes that it was tried with for check cases
    _known: dict[tuple[bool, str], Arrays] = field(default_factory=dict)

    def task(self, figures: Figures | None = None) -> Task:
        """The draft as a task, in a folder that is gone afterwards."""
        figures = figures or Figures({"one": dict(self.draft.axes)}, {"main": dict(self.draft.axes)})
        with tempfile.TemporaryDirectory(prefix="evo-adopt-") as scratch:
            folder = Path(scratch) / self.name
            (folder / "ladder").mkdir(parents=True)
            (folder / "task.yaml").write_text(task_yaml(self.draft, self.name, figures), encoding="utf-8")
            (folder / "reference.py").write_text("", encoding="utf-8")
            task = read_task(folder)
            _ = task.headers  # while the folder is there
            return task

    def changed(self) -> None:
        """The draft is another one: what was compiled for it is of no use."""
        device = self._runner.device if self._runner is not None else None
        self._runner = self._wide = None
        self._known.clear()
        task, text = self.task(), variant_text(self.draft, self.name)
        self._runner = Runner(task, text, device=device) if device is not None else Runner(task, text)

    def inputs(self, axes: Mapping[str, int], seed: int = _SEED) -> Arrays:
        scope: dict[str, object] = {"np": np}
        exec("\n".join(inputs_text(self.draft)), scope)
        draw = scope["inputs"]
        assert callable(draw)
        return {name: np.asarray(a) for name, a in draw(dict(axes), np.random.default_rng(seed)).items()}

    def run(
        self,
        axes: Mapping[str, int],
        *,
        races: bool = True,
        poison: int = POISON_NAN,
        others: Mapping[str, NDArray[np.generic]] | None = None,
    ) -> Arrays:
        """The outputs of the original. others: inputs instead of the drawn ones. Raises Failing."""
        self._fits(axes)
        if self._runner is None:
            self.changed()
        assert self._runner is not None
        case = Case(name="trial", axes=dict(axes))
        plain = not races and not others and poison == POISON_NAN
        if plain and (known := self._known.get((False, repr(case.axes)))) is not None:
            return known
        options = {"check_races": races, "poison": poison, "budget": _RUN_BUDGET}
        found = self._runner.run(case, {**self.inputs(axes), **(others or {})}, **options)
        return found if others or poison != POISON_NAN else self._remembered(False, case, found)

    def _remembered(self, wide: bool, case: Case, found: Arrays) -> Arrays:
        """Outputs on the drawn inputs, kept until the draft changes: they are asked for again and again."""
        if sum(array.nbytes for array in found.values()) <= _MOST_BYTES:
            self._known[wide, repr(case.axes)] = found
        return found

    def _fits(self, axes: Mapping[str, int]) -> None:
        """Raises Failing for sizes whose tensors are empty, or too large to be tried."""
        for tensor in self.draft.tensors:
            count = elements(tensor, {**axes, **self.draft.knobs})
            if not 0 < count <= _MOST_ELEMENTS:
                raise Failing(f"{tensor.name} would have {count:,} elements")

    def run_wide(self, axes: Mapping[str, int], others: Arrays | None = None) -> Arrays | None:
        """The outputs in float64; None if there is no such text, or it does not compile. others: as for `run`."""
        assert self._runner is not None
        if self._wide is None:
            text = widened(self._runner.text)
            if text is None:
                return None
            self._wide = Runner(self.task(), text, wide=True, device=self._runner.device)
        case = Case(name="trial", axes=dict(axes))
        if not others and (known := self._known.get((True, repr(case.axes)))) is not None:
            return known
        try:
            found = self._wide.run(case, {**self.inputs(axes), **(others or {})}, budget=_RUN_BUDGET)
        except Failing:
            return None
        return found if others else self._remembered(True, case, found)

    @property
    def runners(self) -> tuple[Runner, Runner | None]:
        """The original as it is, and in float64 if that has run."""
        assert self._runner is not None
        return self._runner, self._wide

    def settle(self) -> dict[str, int]:
        """A small size that works, with shapes, roles and ranges repaired. Raises SyntaxInvalid for what cannot run."""
        self.guess_shapes()
        for may_leave in (False, True):  # an output that is written whole at some sizes is held to those
            self._may_leave = may_leave
            for axes in self._first_sizes():
                before = [(t, t.dims, [*self._candidates.get(t.name, [])]) for t in self.draft.tensors]
                if self.repaired_at(axes):
                    self._may_leave = True
                    return axes
                for tensor, dims, waiting in before:  # at a size that it does not take, no shape is large enough
                    if tensor.name in self._candidates:
                        tensor.dims, self._candidates[tensor.name] = dims, waiting
                self.changed()
                if self._worst is not None and self._worst.fault and self._worst.fault.kind is FaultKind.BUDGET:
                    raise self._cannot(self._worst)  # a size more costs as long, and tells nothing else
        assert self._worst is not None
        raise self._cannot(self._worst)

    def repaired_at(self, axes: dict[str, int]) -> bool:
        """Whether the original runs at these sizes, once what is wrong with the draft is put right.

        A table that is found has a size of its own, which is added to them.
        """
        for _ in range(_REPAIRS):
            try:
                self._run_twice(axes)
                return True
            except Failing as failing:
                self._worst = failing
                if not self._repaired(failing, axes):
                    return False
            except TaskInvalid as error:
                self._worst = Failing(error.message)
                return False
        return False

    @property
    def guessed(self) -> frozenset[str]:
        """Tensors whose shapes are found by trial."""
        return frozenset(self._candidates)

    def _run_twice(self, axes: Mapping[str, int]) -> Arrays:
        """What holds one poison is held to another: if it differs there, it is not written."""
        first = self.run(axes)
        if any(poisoned(values, POISON_NAN).any() for values in first.values()):
            second = self.run(axes, races=False, poison=POISON_LARGE)
            for name, values in first.items():
                if values.tobytes() != second[name].tobytes():
                    raise Failing(f"some elements of {name} are not written", unwritten=name)
        for name, values in first.items():
            if values.dtype.kind == "f" and np.isnan(values).all():  # fewer channels than groups: means of nothing
                raise Failing(f"{name} is NaN everywhere")
        return first

    def _cannot(self, failing: Failing) -> Exception:
        lines = {launch.instance.name: launch.instance.item.line for launch in self.draft.launches}
        return refusal(failing, self.draft.program.path, variant_text(self.draft, self.name), lines, self.assumed)

    @property
    def assumed(self) -> str:
        """Sizes, tensors and numbers in one line, for a failure: without them nobody knows what to correct."""
        sizes = [f"{axis}={value}" for axis, value in self.draft.axes.items()]
        tensors = [f"{t.name}:{t.role}:{t.dtype}[{','.join(t.shape)}]" for t in self.draft.given]
        return ", ".join([*sizes, *tensors, *(f"{s.name}={s.value:g}" for s in self.draft.scalars)])

    def _repaired(self, failing: Failing, axes: dict[str, int]) -> bool:
        """Whether something about the draft was changed for another run."""
        fault = failing.fault
        if warned := _WARNED.match(str(failing)):
            before = variant_text(self.draft, self.name).count("\n") - self.draft.code.count("\n")
            code = without_warning(self.draft.code, int(warned[1]) - before, warned[2], warned[3] or "")
            done, self.draft.code = code != self.draft.code, code
            self.changed()
            return done
        name, kind = (fault.buffer, fault.kind) if fault is not None else (failing.unwritten, None)
        tensor = next((t for t in self.draft.tensors if t.name == name), None)
        if tensor is None:
            return False
        done = False
        if kind is FaultKind.UNINITIALISED:
            done = self._begun(tensor)
        elif kind is FaultKind.OUT_OF_BOUNDS:
            assert fault is not None
            done = drawn_as_counts(self, self._candidates, axes) or self._larger(tensor, fault, axes)
            done = done or narrower(self, tensor, axes)
        elif kind is FaultKind.READ_ONLY and tensor.role == "in":
            tensor.role, tensor.why, done = "inout", "written to", True
        elif kind is FaultKind.RACE:
            done = draw_distinct(self.draft.given, {**axes, **self.draft.knobs})
        elif kind is None and self._may_leave and (tensor.role, tensor.init) == ("out", "poison"):
            tensor.keep_the_rest(is_fed=self.draft.program.is_fed(tensor.memory))
            done = True
        if done:
            self.changed()
        return done

    def _begun(self, tensor: TensorDraft) -> bool:
        """Read before it is written: an input as well, or a workspace that starts at zero."""
        if tensor.role == "scratch" and tensor.init != "zero":
            tensor.init, tensor.why = "zero", "read before it is written"
            return True
        if tensor.role == "out" and tensor.init != "zero":
            tensor.role, tensor.why = "inout", "read before it is written"
            return True
        return False

    def guess_shapes(self) -> None:
        """Products of axes, the smallest first, for tensors whose size nothing tells."""
        axes = list(self.draft.axes)
        products = [list(c) for count in range(1, min(len(axes), 4) + 1) for c in itertools.combinations(axes, count)]
        for tensor in self.draft.tensors:
            if tensor.dims is None:
                self._try_in_turn(tensor, [list[object](names) for names in products] or [[1]])
                tensor.why += ", size by trial"

    def guess_first(self, name: str, dims: list[object]) -> None:
        """A shape that is tried before all products."""
        tensor = next(each for each in self.draft.tensors if each.name == name)
        self._candidates[name].insert(0, tensor.dims or [])
        tensor.dims = dims

    def guess_rows(self, name: str, lengths: Iterable[int]) -> None:
        """The same products with a number behind them, for a tensor that is read in rows of so many elements."""
        tensor = next(each for each in self.draft.tensors if each.name == name)
        before = [tensor.dims or [], *self._candidates[name]]
        self._try_in_turn(tensor, before + [[*dims, length] for dims in before for length in lengths])

    def _try_in_turn(self, tensor: TensorDraft, shapes: list[list[object]]) -> None:
        lengths = [[d if isinstance(d, int) else self._trial_length(str(d)) for d in dims] for dims in shapes]
        order = sorted(range(len(shapes)), key=lambda at: (math.prod(lengths[at]), len(shapes[at])))
        tensor.dims, *self._candidates[tensor.name] = [shapes[at] for at in order]

    def _trial_length(self, axis: str) -> int:
        axes = list(self.draft.axes)
        lengths = (67, 41, 29, 13, 11, 7) if len(axes) < 4 else (23, 17, 13, 11, 7, 5)  # or tensors of all are large
        return lengths[min(axes.index(axis), 5)]

    def _larger(self, tensor: TensorDraft, fault: Fault, axes: dict[str, int]) -> bool:
        waiting = self._candidates.get(tensor.name)
        length = elements(tensor, {**axes, **self.draft.knobs})
        one_past = fault.offset == length * DTYPES[tensor.dtype] and len(tensor.dims or []) == 1
        if waiting is not None and one_past and tensor.dims and isinstance(tensor.dims[0], str):
            tensor.dims = [("+", tensor.dims[0], 1)]  # where each of n parts begins, and where the last one ends
            return True
        if waiting is not None and drawn_as_indices(self, tensor, self._candidates, axes):
            return True
        return bool(waiting) and take_larger(self, tensor, self._candidates, axes)

    # Sizes.

    def _first_sizes(self) -> Iterator[dict[str, int]]:
        """Sizes for a first run, small ones before the file's own."""
        if self._candidates:  # lengths that tell the axes apart
            apart = {a: (v if v <= SMALL_SIZE else self._trial_length(a)) for a, v in self.draft.axes.items()}
            yield apart
            for axis in (a for a, v in self.draft.axes.items() if v > SMALL_SIZE):  # a number of groups divides one
                yield {**apart, axis: 64}
        large = [axis for axis, value in self.draft.axes.items() if value > SMALL_SIZE]
        for unit in (16, 64, 32, 128) if len(large) > 2 else (64, 256, 16, 1024, 128, 512):
            axes = {**self.draft.axes, **{axis: unit * (1, 2, 3, 1)[at % 4] for at, axis in enumerate(large)}}
            if unit > 256 and len(large) > 1:  # which may be what one axis asks for
                yield from ({**axes, other: 16} for other in large)
            yield axes
        yield from ({axis: min(value, 256) for axis, value in self.draft.axes.items()}, dict(self.draft.axes))

    def cases(self, base: dict[str, int]) -> tuple[dict[str, dict[str, int]], list[str]]:
        """Check cases that the original can take, and what it asks of the sizes, in words."""
        found = {"even": base}
        units, asked = self._units(base)
        large = [axis for axis, value in self.draft.axes.items() if value > SMALL_SIZE]
        shapes = {
            "ragged": (37, 29, 19, 7, 5),
            "long": (1031, 11, 5, 3, 3) if len(large) > 1 else (4099,),
            "wide": (5, 517, 7, 3, 3) if len(large) > 1 else (1021,),
            "short": (3, 7, 5, 2, 3) if len(large) > 1 else (5,),
        }
        for name, lengths in shapes.items():
            axes = dict(base)
            for axis, length in zip(large, lengths, strict=False):
                unit = units[axis]
                if unit is not None:
                    axes[axis] = unit * max(1, -(-length // unit)) if unit > 1 else length
            one_kept = [axes, *({**axes, axis: base[axis]} for axis in large if len(large) > 1)]
            fitting = (
                each
                for each in one_kept
                if each not in found.values() and not self.is_dear(each, few=len(large) > 1) and self.takes(each)
            )
            if (taken := next(fitting, None)) is not None:
                found[name] = self._with_other_small_axes(taken, list(shapes).index(name))
        tied = [axis for axis in large if units[axis] is None]
        for name, factor in (("twice", 2), ("thrice", 3)):  # lengths that only change together
            axes = {**base, **{axis: base[axis] * factor for axis in tied}}
            if len(tied) > 1 and self.takes(axes):
                found[name] = axes
        if len(tied) > 1 and len(found) > 1:
            asked = [text for text in asked if not text.endswith("alone")]
            asked.append(f"{' and '.join(tied)} of one length, a multiple of {math.gcd(*(base[a] for a in tied))}")
        if len(found) == 1 and self._raced is not None:
            raise self._cannot(self._raced)
        return found, asked

    def is_dear(self, axes: Mapping[str, int], *, few: bool = True) -> bool:
        """Whether a case takes seconds, as a few of its blocks tell. few: small tensors say that it does not."""
        if (count := all_elements(self.draft, axes)) > _MANY_ELEMENTS or (few and count < _FEW_ELEMENTS):
            return count > _MANY_ELEMENTS
        try:
            return self.work(axes) > _LONG_WORK
        except TaskInvalid:
            return False  # it fails, as will be seen

    def _with_other_small_axes(self, axes: dict[str, int], place: int) -> dict[str, int]:
        """The case with other lengths of short axes (batches, channels), if the original takes them."""
        for axis, value in self.draft.axes.items():
            length = (value + 1, 1, 2 * value + 1, max(1, value - 1))[place]
            other = {**axes, axis: length}
            if value <= SMALL_SIZE and other != axes and not self.is_dear(other) and self.takes(other):
                axes = other
        return axes

    def _units(self, base: Mapping[str, int]) -> tuple[dict[str, int | None], list[str]]:
        """By axis what its length must be a multiple of; None for one that only the present length does for."""
        units: dict[str, int | None] = {}
        asked = []
        for axis, value in self.draft.axes.items():
            if value <= SMALL_SIZE:
                units[axis] = None
                continue
            tried = {unit: {**base, axis: unit * (3 if unit > 16 else 29)} for unit in (1, *_MULTIPLES)}
            units[axis] = next((unit for unit, axes in tried.items() if self.takes(axes)), None)
            if units[axis] is None:
                asked.append(f"{axis} = {base[axis]} alone")
            elif units[axis] != 1:
                asked.append(f"{axis} % {units[axis]} == 0")
        return units, asked

    def runs(
        self, axes: Mapping[str, int], *, races: bool = True, others: Mapping[str, NDArray[np.generic]] | None = None
    ) -> bool:
        """Whether the original runs at these sizes. others: as for `run`."""
        try:
            self.run(axes, races=races, others=others)
        except (Failing, TaskInvalid):
            return False
        return True

    def takes(self, axes: Mapping[str, int]) -> bool:
        """Whether the original runs at these sizes, and writes all of its outputs."""
        try:
            self._run_twice(axes)
        except Failing as failing:
            kind = failing.fault.kind if failing.fault is not None else None
            self._raced = failing if kind is FaultKind.RACE else self._raced
            return kind is FaultKind.RACE and self._repaired(failing, dict(axes)) and self.takes(axes)
        except TaskInvalid:
            return False
        return True

    def work(self, axes: Mapping[str, int]) -> float:
        """Warp instructions of all blocks, about; without end where the tensors alone are too large."""
        if all_elements(self.draft, axes) > 1 << 26:
            return float("inf")
        assert self._runner is not None
        case = Case(name="work", axes=dict(axes))
        try:
            program = self._runner.program(case)
            bench = BenchCase(program=program, inputs=self._runner.typed(case, self.inputs(axes)))
            asked = SampleRequest(case=bench, draw=1, blocks=8, check_races=False, first_whole=False)
            found = self._runner.device.run_sample(asked)
            if found.fault is not None and found.fault.kind is not FaultKind.BUDGET:  # addresses from the launch before
                found = self._runner.device.run_sample(replace(asked, first_whole=True))
        except Failing as failing:
            raise self._cannot(failing) from None
        return found.work if found.fault is None else float("inf") if found.fault.kind is FaultKind.BUDGET else 0.0
