"""The last look at a variant whose times are modelled: every timed size once more, on blocks that nobody can foresee.

The gate runs the check cases and the headline whole; at other timed sizes an estimate runs a fixed sample of blocks.
Here a secret sample of each is run with races watched, its numbers are held to the reference, and its times handed
back to be decided on again. Large references are cut along an axis whose places do not depend on one another. Then the
numbers alone are looked at over the whole grid, or as many of its blocks as can be afforded (`full_grid`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from evo.device import Arrays, BenchCase, ExtremesRequest, OutputExtremes, Program, SampledRun, SampleRequest
from evo.device.output_extremes import Extreme
from evo.device.remote_device import RemoteGpu, RemoteSimulator
from evo.errors import Crashed, TimedOut
from evo.evaluate.counted_stage import CountedStage, Tell, silent
from evo.evaluate.gate.compare import compare, terms_of
from evo.evaluate.gate.cut_reference import cut_axis, cut_expectation
from evo.evaluate.gate.error_budget import per_element
from evo.evaluate.gate.full_grid import VARIED, cut_inputs, held_to_truth, repeated, varied
from evo.evaluate.gate.kept_laws import law_at
from evo.evaluate.gate.mismatches import placed
from evo.evaluate.gate.other_machines import GROSS, altered, rough
from evo.evaluate.gate.run_cases import fault_reason
from evo.results import CaseBench, CaseCheck, Fault, FaultKind, Mismatch, MismatchKind, Stage, Status, Verified
from evo.spec.changed_inputs import changed_case
from evo.spec.expectation import Expectation
from evo.spec.input_distributions import DRAWN, MIXED
from evo.spec.laws import Law
from evo.spec.look_ahead import look_ahead
from evo.spec.reference import Reference
from evo.spec.task import Case, Task

R = TypeVar("R")
Places = NDArray[np.int64]  # flat indices of elements, or indices along an axis

_LIMIT_S = 120.0
_WHOLE_LIMIT_S = 240.0
_FEW = 32  # blocks of a first sample
_MANY = 256
_BUDGET = 200_000_000  # warp instructions of a launch whose whole grid has to be looked at
_TRIFLE = 16_000_000  # ... and of one for which a sample would do
_WIDE = 64_000_000  # ... of the blocks whose numbers alone are looked at: seconds
HIDDEN = 1.25  # the time of the whole grid over that of its sample, from where on the sample is not believed
_SHARE = 0.93  # below, the sample has not written what it is due, and the whole grid is looked at
_ELEMENTS = 1 << 18  # of inputs and outputs, that a cut of a reference is made for
_FLOP = 2e7  # up to here a reference takes a second or so ...
_QUICK = 16  # ... and is cut for so many times the elements


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedSizes:
    """status: CORRECT, or how a timed size failed, in `case`. rows: modelled times of the secret samples.

    stage: which look found it; another than VERIFY if other sizes or inputs than the timed ones were looked at too.
    unseen: what could not be looked at, in words: then nothing is known against the variant, and nothing for it.
    verified: what all looks before a keep have looked at.
    """

    status: Status
    stage: Stage = Stage.VERIFY
    reason: str | None = None
    case: CaseCheck | None = None
    fault: Fault | None = None
    rows: tuple[CaseBench, ...] = ()
    unseen: str | None = None
    verified: Verified | None = None


def timed_sizes(
    task: Task,
    programs: Mapping[str, Program],
    reference: Reference,
    checker: RemoteSimulator,
    seed: int,
    *,
    numbers: bool = True,
    target: RemoteGpu | None = None,
    cases: Sequence[Case] | None = None,
    beside: Sequence[RemoteSimulator] = (),
    tell: Tell = silent,
    drawn_alone: bool = False,
) -> TimedSizes:
    """Look at every bench case again. Raises EvoError for the harness only.

    cases: to look at others instead, which are as large. drawn_alone: on no other inputs, for what claims nothing.
    numbers: hold them to the reference, which takes time; not where a GPU has run the whole grid and was held to it.
    target: that GPU, which then runs other inputs than the task draws as well.
    beside: further simulators. A case waits for simulator, GPU and reference in turn: with a GPU others go on then.
    """
    axis = cut_axis(task, reference)
    rows: list[CaseBench] = []
    unseen: str | None = None
    chosen = list(enumerate(task.bench if cases is None else cases))
    if target is not None:  # its times decide, not rows in order: the longest begins
        chosen.sort(key=lambda item: -sum(math.prod(tensor.dims(item[1])) for tensor in task.tensors))
    places = (checker, *beside)

    def look(item: tuple[int, Case]) -> TimedSizes:
        number, case = item
        bench = BenchCase(program=programs[case.name], inputs=reference.fixed_inputs(case, seed))
        law = None if drawn_alone else law_at(task, reference, case, axis, seed, number)
        place = places[number % len(places)]
        return _Look(task, case, reference, axis, seed, bench, place, numbers, target, drawn_alone, law).judge()

    most = len(places) if target is None else 2 * len(places)
    with ThreadPoolExecutor(most, thread_name_prefix="evo-timed-sizes") as pool:

        def begin(item: tuple[int, Case]) -> Future[TimedSizes]:
            tell(CountedStage("verify", "timed size", item[0], len(chosen), item[1].name))
            return pool.submit(look, item)

        for _, found in look_ahead(begin, chosen, most):
            if found.status is not Status.CORRECT:
                return found
            unseen = unseen or found.unseen
            rows += found.rows
    return TimedSizes(status=Status.CORRECT, rows=tuple(rows) if unseen is None else (), unseen=unseen)


@dataclass(frozen=True, slots=True)
class _Look:
    """One bench case under way."""

    task: Task
    case: Case
    reference: Reference
    axis: str | None
    seed: int
    bench: BenchCase
    checker: RemoteSimulator
    numbers: bool
    target: RemoteGpu | None
    drawn_alone: bool = False
    law: Law | None = None
    known: dict[str, tuple[Places | None, Expectation]] = field(default_factory=dict)

    def judge(self) -> TimedSizes:
        """A sample first; what is wrong with it, or missing, is asked of the whole grid before it is believed."""
        found = self._run(_FEW)
        if isinstance(found, SampledRun) and found.fault is None and not found.whole and found.share < _SHARE:
            found = self._run(_MANY)  # blocks that write unequal amounts: more of them are nearer to the mean
        if isinstance(found, SampledRun):
            row = self._compared(found)
            if not found.whole and (found.fault is not None or row is not None or found.share < _SHARE):
                # A part of the grid may well be wrong by itself: a block that adds to others' sums, or waits for them.
                found = self._run(None, _BUDGET)
                row = self._compared(found) if isinstance(found, SampledRun) else None
            elif found.doubtful:
                found = self._of_all(found)
                row = self._compared(found)
        if not isinstance(found, SampledRun):
            return self._unseen(found)
        if _over_budget(found.fault):
            return self._unseen("its blocks need one another, and all of them take more instructions than one look has")
        if found.fault is not None:
            return self._failed(self._faulty(found.fault), found.fault)
        if row is not None:
            return self._failed(row)
        problem = self._of_many_blocks(found) if self.numbers and not found.whole else None
        if problem is None and not self.drawn_alone and (self.numbers or self.target is not None):
            problem = next(filter(None, (self._varied(found, kind) for kind in VARIED)), None) or self._lawful(found)
        if problem is not None:
            return problem
        assert found.row is not None
        return TimedSizes(status=Status.CORRECT, rows=(found.row,))

    def _of_many_blocks(self, sample: SampledRun) -> TimedSizes | None:
        """What is wrong with the numbers of many blocks, all of them if that is cheap; None if nothing."""
        few = max(_FEW, int(sample.blocks * _WIDE / max(1.0, sample.work)))
        where, truth = self.known["truth"]
        inputs, groups = self.bench.inputs, None
        if where is not None:  # else the whole truth is known
            assert self.axis is not None
            inputs, groups = repeated(self.task, self.case, self.axis, self.bench.inputs, where, self.seed)
        blocks = None if few >= sample.blocks else few
        return self._held(self._asked(inputs, blocks, groups), truth)

    def _varied(self, sample: SampledRun, kind: str) -> TimedSizes | None:
        """What is wrong on other inputs than the task draws: a variant may be right on those alone, at timed sizes.

        On the simulator the mixture meets other bits of approximate instructions; what is wrong then is asked again.
        """
        other = varied(self.task, self.case, self.reference, self.axis, self._count(), self.seed, kind)
        if other is None:
            return None
        asked = self._asked(other.inputs, None if sample.blocks <= _FEW else _FEW, other.groups)
        moved = altered(self.bench.program, rough) if kind == MIXED and self.target is None else None
        if moved is not None:
            found = self._held(replace(asked, case=replace(asked.case, program=moved)), other.truth)
            amiss = found.case.mismatch if found is not None and found.case is not None else None
            if found is None or (amiss is not None and amiss.kind in GROSS):
                return found
        return self._held(asked, other.truth)

    def _lawful(self, sample: SampledRun) -> TimedSizes | None:
        """What is wrong after a change of inputs of which a law of the task tells the outcome; None if nothing."""
        law, rng = self.law, np.random.default_rng([self.seed, 84, *self.case.name.encode()])
        if law is None:
            return None
        if "truth" not in self.known:  # a GPU was held to the whole of it
            if self.axis is None:
                return None
            some = np.sort(rng.permutation(self.case.axes[self.axis])[: self._count()])
            cut = cut_expectation(self.task, self.reference, self.case, self.seed, self.axis, some)
            self.known["truth"] = some, cut
        where, truth = self.known["truth"]
        axis = None if where is None else self.axis
        whole = self.bench.inputs
        inputs = whole if where is None or axis is None else cut_inputs(self.task, axis, whole, where)
        changed = changed_case(law, self.task, self.case, inputs, rng)  # it moves nothing along the axis of the cut
        if changed is None:
            return None
        inputs, groups = changed.inputs, None
        if where is not None and axis is not None:
            inputs, groups = repeated(self.task, self.case, axis, whole, where, self.seed, cut=inputs)
        trusted = None if truth.trusted is None else changed.outputs(truth.trusted)
        blocks = None if sample.blocks <= _FEW else _FEW
        outputs, terms = changed.outputs(truth.expected), terms_of(self.task, self.case)
        near = None if truth.honest is None else truth.honest.of_changed(changed.outputs)
        expected = Expectation({}, outputs, trusted, law.words, terms=terms, honest=near)
        return self._held(self._asked(inputs, blocks, groups), expected)

    def _asked(self, inputs: Arrays, blocks: int | None, groups: Places | None) -> ExtremesRequest:
        case, budget = replace(self.bench, inputs=inputs), _BUDGET if blocks is None else None
        return ExtremesRequest(case=case, draw=self.seed, blocks=blocks, budget=budget, groups=groups)

    def _count(self) -> int:
        """Places along the axis that a reference is cut to; 0 without an axis."""
        if self.axis is None:
            return 0
        led = [t for t in self.task.tensors if t.shape and t.shape[0].text == self.axis]
        most = _ELEMENTS * (_QUICK if self.task.work_of(self.case).get("flop", math.inf) <= _FLOP else 1)
        each = sum(math.prod(t.dims(self.case)[1:]) for t in led)
        return max(1, min(self.case.axes[self.axis], most // max(1, each)))

    def _held(self, asked: ExtremesRequest, truth: Expectation) -> TimedSizes | None:
        """What the extremes of the outputs show to be wrong, or cannot show; None if they are all right."""
        found, amiss = self._looked(asked, truth)
        # A part of the grid may need the others, or has written over what is others' to write.
        if isinstance(found, OutputExtremes) and not found.whole and (found.share < _SHARE or found.short or amiss):
            part = found
            found, amiss = self._looked(replace(asked, blocks=None, budget=_BUDGET), truth)
            if isinstance(found, OutputExtremes) and part.short and _over_budget(found.fault):
                return self._unseen(part.short)
        if not isinstance(found, OutputExtremes):
            return self._unseen(found)
        if _over_budget(found.fault):
            return self._unseen(
                "some of its blocks write wrong values or too few, and its grid is too large to run as a whole"
            )
        return None if amiss is None else self._failed(amiss, found.fault, truth.distribution)

    def _looked(self, asked: ExtremesRequest, truth: Expectation) -> tuple[OutputExtremes | str, CaseCheck | None]:
        """What the device found, or why nothing; and what is wrong with it."""
        found = self._extremes(asked)
        return found, self._amiss(found, truth, asked) if isinstance(found, OutputExtremes) else None

    def _failed(self, row: CaseCheck, fault: Fault | None = None, distribution: str = DRAWN) -> TimedSizes:
        under = "" if distribution == DRAWN else f" with {distribution} inputs"
        reason = f"at a timed size: case {self.case.name}{under}: {row.reason}"
        return TimedSizes(status=row.status, reason=reason, case=replace(row, inputs=(distribution,)), fault=fault)

    def _faulty(self, fault: Fault) -> CaseCheck:
        return CaseCheck(name=self.case.name, status=fault.kind.status, reason=fault_reason(fault))

    def _extremes(self, asked: ExtremesRequest) -> OutputExtremes | str:
        """What the device found, or why it found nothing. A GPU runs the whole grid without a budget."""
        whole = asked.blocks is None
        if self.target is None:
            limit_s = _WHOLE_LIMIT_S if whole else _LIMIT_S
            return _found(lambda: self.checker.output_extremes(asked, time_limit_s=limit_s))
        target = self.target
        return _found(lambda: target.output_extremes(asked, time_limit_s=_LIMIT_S))

    def _amiss(self, found: OutputExtremes, truth: Expectation, asked: ExtremesRequest) -> CaseCheck | None:
        """What is wrong with extremes; None if they are as they should be."""
        if found.fault is not None:
            return self._faulty(found.fault)
        if found.unwritten is not None:
            return self._unwritten(*found.unwritten)
        if (wrong := held_to_truth(self.task, self.case, found, truth)) is None:
            return None
        row, lowest = wrong
        if (flat := _flat_index(row)) is not None:
            name, number = flat
            again = self._extremes(replace(asked, find=Extreme(output=name, at=number, lowest=lowest)))
            if isinstance(again, OutputExtremes) and again.place is not None:
                return placed(row, self._index(name, again.place))
        return row

    def _of_all(self, sample: SampledRun) -> SampledRun:
        """The whole grid, where that can be run; the sample otherwise, and its time unless it hid much."""
        found = self._run(None, _TRIFLE)
        if not isinstance(found, SampledRun) or _over_budget(found.fault):
            return sample
        if sample.row is not None and found.row is not None and found.row.time_us < HIDDEN * sample.row.time_us:
            return replace(found, row=sample.row)
        return found

    def _run(self, blocks: int | None, budget: int | None = None) -> SampledRun | str:
        """Run a sample, or the whole grid under a budget; why nothing was found if so."""
        asked = SampleRequest(case=self.bench, draw=self.seed, blocks=blocks, budget=budget)
        limit_s = _WHOLE_LIMIT_S if blocks is None else _LIMIT_S
        return _found(lambda: self.checker.run_sample(asked, time_limit_s=limit_s))

    def _unseen(self, why: str) -> TimedSizes:
        return TimedSizes(
            status=Status.CORRECT, unseen=f"case {self.case.name} cannot be verified on the simulator: {why}"
        )

    def _compared(self, found: SampledRun) -> CaseCheck | None:
        """What is wrong with the numbers that were written; None if nothing."""
        if found.fault is not None or not self.numbers:
            return None
        sizes = {t.name: math.prod(t.dims(self.case)) for t in self.task.outputs}
        if found.whole and (missing := self._left_out(found, sizes)) is not None:
            return missing
        where, truth = self.known["truth"] = self._truth(found.places, sizes)
        outputs: Arrays = {}
        expected: Arrays = {}
        trusted: Arrays | None = {} if truth.trusted is not None else None
        looked_at: dict[str, Places] = {}
        places_of: dict[str, Places] = {}
        for name, places in found.places.items():
            mine, within = self._within(places, sizes[name], where)
            outputs[name], looked_at[name] = found.values[name][mine], places[mine]
            if not len(within):  # nothing of this output lies in what is looked at: take one element as it should be
                within = looked_at[name] = np.zeros(1, np.int64)
                with np.errstate(all="ignore"):
                    outputs[name] = truth.expected[name].reshape(-1)[:1].astype(found.values[name].dtype)
            places_of[name] = within
            expected[name] = truth.expected[name].reshape(-1)[within]
            if trusted is not None and truth.trusted is not None:
                trusted[name] = truth.trusted[name].reshape(-1)[within]
        terms = per_element(self.task, found.atomics, sum(len(places) for places in found.places.values()))
        near = truth.honest.whole_at(places_of) if truth.honest is not None else None
        held = Expectation({}, expected, trusted, honest=near, terms=terms_of(self.task, self.case))
        row = compare(self.task, self.case.name, outputs, held, terms)
        if row.status is Status.CORRECT:
            return None
        if (flat := _flat_index(row)) is None:
            return row
        name, number = flat
        return placed(row, self._index(name, int(looked_at[name][number])))

    def _left_out(self, found: SampledRun, sizes: dict[str, int]) -> CaseCheck | None:
        """The first element that the whole grid has not written."""
        for name, places in found.places.items():
            if len(places) < sizes[name]:
                first = np.searchsorted(places - np.arange(len(places)), 1)  # where the rising places leave one out
                return self._unwritten(name, int(first), sizes[name] - len(places))
        return None

    def _unwritten(self, name: str, place: int, count: int) -> CaseCheck:
        index = self._index(name, place)
        found = Mismatch(kind=MismatchKind.UNWRITTEN, tensor=name, index=index, elements=count)
        reason = f"unwritten: {found.element} ({count} elements)"
        return CaseCheck(name=self.case.name, status=Status.WRONG, reason=reason, mismatch=found)

    def _truth(self, written: dict[str, Places], sizes: dict[str, int]) -> tuple[Places | None, Expectation]:
        """The reference at those places along the axis where most was written (None: everywhere)."""
        if self.axis is None:
            return None, self.reference.expectation(self.case, self.seed)
        length, count = self.case.axes[self.axis], self._count()
        if count == length:
            return None, self.reference.expectation(self.case, self.seed)
        share = np.zeros(length)
        for name, places in written.items():
            each = sizes[name] // length
            share += np.bincount(places // each, minlength=length) / each
        order = np.random.default_rng(self.seed).permutation(length)
        where = np.sort(order[np.argsort(-share[order], kind="stable")[:count]])
        return where, cut_expectation(self.task, self.reference, self.case, self.seed, self.axis, where)

    def _within(self, places: Places, size: int, where: Places | None) -> tuple[Places, Places]:
        """Which of the places lie at these places along the axis, and their flat indices in what was cut out."""
        if where is None:
            return np.arange(len(places)), places
        assert self.axis is not None
        each = size // self.case.axes[self.axis]
        lead = places // each
        at = np.minimum(np.searchsorted(where, lead), len(where) - 1)
        mine = np.flatnonzero(where[at] == lead)
        return mine, at[mine] * each + places[mine] % each

    def _index(self, name: str, place: int) -> tuple[int, ...]:
        """The index in its tensor of an element that is so many from the tensor's start."""
        dims = next(tensor.dims(self.case) for tensor in self.task.outputs if tensor.name == name)
        return tuple(int(i) for i in np.unravel_index(place, dims))


def _flat_index(row: CaseCheck) -> tuple[str, int] | None:
    """The output and the number of the element that is wrong in it; None if the whole output is."""
    found = row.mismatch
    return (found.tensor, found.index[0]) if found is not None and found.index else None


def _found(ask: Callable[[], R]) -> R | str:
    """What a device found, or in words why it found nothing."""
    try:
        return ask()
    except TimedOut as late:
        return f"it was still running after {late.seconds:g} s"
    except Crashed as crash:
        return str(crash)


def _over_budget(fault: Fault | None) -> bool:
    return fault is not None and fault.kind is FaultKind.BUDGET
