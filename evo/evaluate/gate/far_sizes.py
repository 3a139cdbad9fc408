"""Sizes as large as a task's axes allow together, odd ones: a sample of their blocks, on inputs that repeat.

The largest lengths of several axes meet in no case, since that would be too dear to time. An index of 31 bits or
fewer, one worked out in float, or one divided by a rounded reciprocal is right at every other size. Here the largest
tensors get all the elements that their axes allow. The places along an axis that do not depend on one another repeat
the inputs of a few, and the simulator maps those again and again (`evo.sim.memory`), so such a tensor costs
what is touched of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from evo.device import Arrays, BenchCase, Program, SampledRun, SampleRequest
from evo.device.remote_device import RemoteSimulator
from evo.errors import Crashed, TaskInvalid, TimedOut
from evo.evaluate.gate.at_timed_sizes import TimedSizes
from evo.evaluate.gate.compare import compare, terms_of
from evo.evaluate.gate.cut_reference import cut_axis, cut_expectation
from evo.evaluate.gate.mismatches import placed
from evo.evaluate.gate.run_cases import Bind, fault_reason
from evo.evaluate.gate.scaled_cases import named_case
from evo.evaluate.gate.threshold_cases import AxisSpace, cost_of, is_simulated
from evo.results import CaseCheck, Fault, FaultKind, Stage, Status
from evo.spec.expectation import Expectation
from evo.spec.look_ahead import look_ahead
from evo.spec.proc_files import memory_limit
from evo.spec.reference import Reference
from evo.spec.task import Case, Task, Tensor

Places = NDArray[np.int64]

_LIMIT_S = 60.0
_CASES = 2
_BLOCKS, _FEW, _MANY = 24, 4, 192
_TURNS = 3
_BUDGET = 12_000_000  # warp instructions: seconds
_LOOKED_AT = 24  # places along the axis that the reference is worked out for
_REPEATED, _DIFFERENT = 64, 2  # places that differ at most; that do however dear one is
_DRAWN = 80 << 20  # elements of the inputs that are drawn
_LED = 24 << 20  # ... of those that lie along the axis, for all places that differ
_ACCOUNT, _ROOM = 4, 8  # bytes of an output for one of the account of it; of memory for one of all accounts
_MAPPED, _LEAST_ROOM = 0.8, 13 << 30  # of the memory, for all tensors: pages are had as they are touched
_COST, _SLOWER = 6e8, 20  # flops and bytes of the reference; by how much one that is simulated may have less
_SHRINKS = 24
_NEARLY = (
    0.55  # of the largest lengths, from where on one is drawn: what is rounded up may be a power of two at the end
)
_FARTHER = 4  # times the elements of what runs whole
_SHORT = 16  # lengths up to it are kept, of what is to reach far
_PRIMES = (3, 5, 7)
REACHED = 0.9  # of an output, by blocks from everywhere in the grid
_LEAST_SHARE, _FAIR_SHARE = 0.5, 0.93  # of what sampled blocks are due: far away, and where it counts as usual
CERTAIN = (FaultKind.OUT_OF_BOUNDS, FaultKind.MISALIGNED)  # whatever other blocks would have written


def far_cases(task: Task, reference: Reference, seed: int) -> tuple[Case, ...]:
    """The farthest sizes for each group of axes that some tensor has: those with most elements first, of each group one
    that no timed size reaches before any other.
    """
    axis = cut_axis(task, reference)
    space = AxisSpace.of(task)
    rng = np.random.default_rng([seed, 86])
    usual = max(_elements(task.tensors, case) for case in task.check)
    axes_of = {
        t.name: frozenset(name for dim in t.shape for name in dim.names if name in space.spans) for t in task.tensors
    }
    groups = {group for group in axes_of.values() if group & set(space.free)}
    groups = {group for group in groups if not any(group < other for other in groups)}
    bases = (*task.check, *task.bench)  # an axis that counts a few things may be largest where something is timed
    found: dict[tuple[int, ...], tuple[bool, int, Case]] = {}
    for names in sorted(map(sorted, groups)):
        own = [tensor for tensor in task.tensors if axes_of[tensor.name] <= set(names)]
        timed = max((_elements(own, case) for case in task.bench), default=0)
        for least in (1.0, _NEARLY):
            reach = {name: float(rng.uniform(least, 1.0)) for name in names}
            made = [_farthest(task, space, bases[at], reach, axis) for at in rng.permutation(len(bases))]
            allowed = (case for case in made if case is not None)
            case = max(allowed, key=lambda c: (_elements(own, c), cost_of(task, c)), default=None)
            if case is not None and (most := _elements(own, case)) > _FARTHER * usual:
                is_new = least == 1.0 and most > timed
                found.setdefault(tuple(case.axes.values()), (is_new, _elements(task.tensors, case), case))
    order = sorted(found.values(), key=lambda each: (not each[0], -each[1]))
    return tuple(case for *_, case in order[:_CASES])


def _farthest(task: Task, space: AxisSpace, base: Case, reach: Mapping[str, float], axis: str | None) -> Case | None:
    """The check case with axes of such parts of their largest lengths, or as can be afforded; None if its other axes
    forbid it.
    """
    axes = dict(base.axes)
    for name, part in reach.items():
        if name in space.free or name == axis:
            axes[name] = _odd(space, name, math.floor(part * space.spans[name][1]))
    given = {name: axes[name] for name in reach}
    last: dict[str, int] = {}
    for _ in range(_SHRINKS):
        space.settle(axes, given)
        if not space.may_be(task, axes):
            return None
        case = named_case(axes)
        few = part_of(task, case, axis)
        drawn = sum(math.prod(tensor.dims(few)) for tensor in task.inputs)
        kept = sum(tensor.size_bytes(case) for tensor in task.outputs) / _ACCOUNT
        mapped = sum(tensor.size_bytes(case) for tensor in task.tensors)
        if (
            _dearest(task, space, few) <= _COST / (_SLOWER if is_simulated(task) else 1)
            and drawn <= _DRAWN
            and kept <= memory_limit() / _ROOM
            and mapped <= _MAPPED * max(memory_limit(), _LEAST_ROOM)  # as much as a simulator may address
        ):
            return case
        least = {name: _SHORT if name in reach else space.spans[name][0] for name in space.free if name != axis}
        rest = [name for name, low in least.items() if axes[name] > low and last.get(name) != axes[name]]
        if not rest:
            return None
        longest = max(rest, key=lambda name: (name not in reach, axes[name]))
        last[longest] = axes[longest]  # another axis may hold it there
        axes[longest] = max(space.spans[longest][0], _odd(space, longest, axes[longest] // 2))
    return None


def _dearest(task: Task, space: AxisSpace, case: Case) -> float:
    """What it costs under any flags: a reference computes what a mask leaves out."""
    settings = itertools.product((0, 1), repeat=len(space.flags))
    return max(cost_of(task, named_case({**case.axes, **dict(zip(space.flags, s, strict=True))})) for s in settings)


def _odd(space: AxisSpace, name: str, high: int) -> int:
    """The largest allowed length up to it that is odd, and no multiple of a small prime, in steps of the axis."""
    step, low = max(1, space.steps[name]), space.spans[name][0]
    for count in range(high // step, 0, -1):
        if count * step >= low and count % 2 and (count <= _SHORT or all(count % prime for prime in _PRIMES)):
            return count * step
    return high


def part_of(task: Task, case: Case, axis: str | None) -> Case:
    """The same with the places along the axis that are drawn."""
    if axis is None:
        return case
    led = [tensor for tensor in task.tensors if tensor.shape and tensor.shape[0].text == axis]
    each = sum(math.prod(tensor.dims(case)[1:]) for tensor in led)
    one = cost_of(task, Case(name="", axes={**case.axes, axis: 1}))
    count = min(_REPEATED, max(1, _LED // max(1, each)), max(_DIFFERENT, int(_COST / max(1.0, one))))
    if case.axes[axis] <= count:
        return case
    return Case(name=f"{count} places of {case.name}", axes={**case.axes, axis: count})


def _elements(tensors: Sequence[Tensor], case: Case) -> int:
    return max(math.prod(tensor.dims(case)) for tensor in tensors)


@dataclass(frozen=True, slots=True)
class _Far:
    """One variant under way."""

    task: Task
    reference: Reference
    checker: RemoteSimulator
    axis: str | None
    seed: int

    def sampled(
        self, case: Case, program: Program, blocks: int = _BLOCKS, turn: int = 0
    ) -> tuple[SampledRun, CaseCheck | None] | None:
        """What some blocks did, others each turn, and what is wrong with their numbers; None if nothing was found."""
        part = part_of(self.task, case, self.axis)
        try:
            inputs = self.reference.fixed_inputs(part, self.seed)
        except TaskInvalid:  # its sizes do not go together
            return None
        led = [t for t in self.task.inputs if part is not case and t.shape and t.shape[0].text == self.axis]
        asked = SampleRequest(
            case=BenchCase(program=program, inputs=inputs),
            draw=self.seed + turn,
            budget=_BUDGET,
            filled={tensor.name: tensor.size_bytes(case) for tensor in led},
            check_races=False,  # their account of such a buffer is several times as large
            only_changed=True,  # in place, nothing tells what blocks that did not run have left as it was
        )
        try:
            found = self.checker.run_sample(replace(asked, blocks=blocks), time_limit_s=_LIMIT_S)
            if found.fault is not None and found.fault.kind is FaultKind.BUDGET:
                found = self.checker.run_sample(replace(asked, blocks=_FEW), time_limit_s=_LIMIT_S)
        except (TimedOut, Crashed):
            return None
        if found.fault is not None:
            return (found, None) if found.fault.kind in CERTAIN else None
        try:
            return found, self._compared(case, part, found)
        except TaskInvalid:  # they do not for its results either
            return None

    def is_wrong(self, case: Case, programs: Mapping[str, Program], *, short: bool) -> bool:
        """Whether this kernel is wrong there too; not if it cannot be launched. short: writing too little counts."""
        seen = self.sampled(case, programs[case.name], _MANY) if case.name in programs else None
        if seen is None:
            return False
        falls_short = short and _falls_short(self.task, case, *seen)
        return seen[0].fault is not None or seen[1] is not None or falls_short

    def _compared(self, case: Case, part: Case, found: SampledRun) -> CaseCheck | None:
        """What is wrong with what was written; None if nothing."""
        if self.axis is not None and not any(len(places) for places in found.places.values()):
            return None  # the reference of all of it would take a minute
        lead, truth = self._truth(case, part, found)
        outputs: Arrays = {}
        expected: Arrays = {}
        trusted: Arrays = {}
        shown: dict[str, Places] = {}
        parts: dict[str, Places] = {}
        for tensor in self.task.outputs:
            name, dims = tensor.name, tensor.dims(case)
            places = found.places[name]
            each = math.prod(dims) if lead is None else math.prod(dims[1:])
            at = np.zeros(len(places), np.int64) if lead is None else np.searchsorted(lead, places // each)
            mine = np.ones(len(places), bool) if lead is None else lead[np.minimum(at, len(lead) - 1)] == places // each
            if not mine.any():
                return None  # nothing to hold to the reference
            row = 0 if lead is None else self._row(part, lead)[at[mine]]
            parts[name] = within = row * each + places[mine] % each
            shown[name], outputs[name] = places[mine], found.values[name][mine]
            expected[name] = truth.expected[name].reshape(-1)[within]
            if truth.trusted is not None:
                trusted[name] = truth.trusted[name].reshape(-1)[within]
        of_truth = trusted if truth.trusted is not None else None
        near = None if truth.honest is None else truth.honest.whole_at(parts)
        truth = Expectation({}, expected, of_truth, "far", terms=terms_of(self.task, case), honest=near)
        row_found = compare(self.task, case.name, outputs, truth)
        if row_found.status is Status.CORRECT:
            return None
        amiss = row_found.mismatch
        if amiss is None or not amiss.index:
            return row_found
        dims = next(t.dims(case) for t in self.task.outputs if t.name == amiss.tensor)
        return placed(row_found, tuple(map(int, np.unravel_index(shown[amiss.tensor][amiss.index[0]], dims))))

    def _truth(self, case: Case, part: Case, found: SampledRun) -> tuple[Places | None, Expectation]:
        """The reference at some of the places along the axis that were written to (None: everywhere)."""
        if self.axis is None:
            return None, self.reference.expectation(case, self.seed)
        sizes = {t.name: math.prod(t.dims(case)[1:]) for t in self.task.outputs}
        every = np.unique(np.concatenate([places // sizes[name] for name, places in found.places.items()]))
        rng = np.random.default_rng([self.seed, 87])
        lead = np.sort(rng.permutation(every)[:_LOOKED_AT])
        where = np.unique(lead % part.axes[self.axis])
        return lead, cut_expectation(self.task, self.reference, part, self.seed, self.axis, where)

    def _row(self, part: Case, lead: Places) -> Places:
        """Which row of the cut has the inputs of each of these places."""
        assert self.axis is not None
        drawn = lead % part.axes[self.axis]
        return np.asarray(np.searchsorted(np.unique(drawn), drawn), np.int64)


def far_sizes(
    task: Task,
    programs: Mapping[str, Program],
    reference: Reference,
    checkers: Sequence[RemoteSimulator],
    seed: int,
    cases: Sequence[Case],
    honest: Bind | None = None,
) -> Iterator[tuple[Case, TimedSizes]]:
    """Each of these cases that some blocks tell something about: right, or wrong as no timed size is. As many side by
    side as there are simulators, told in the cases' order.

    A part of a grid may be wrong by itself, if blocks add to others' sums or wait for them. So a variant of which a
    part of a timed size is wrong as well is not held to this. honest: programs of the task's own first kernel; nothing
    is held to a size at which that is wrong, as it is where it counts elements in 32 bits.
    """
    axis = cut_axis(task, reference)
    free: SimpleQueue[RemoteSimulator] = SimpleQueue()
    for each in checkers:
        free.put(each)

    def look(case: Case) -> TimedSizes | None:
        checker = free.get()
        try:
            return _at_far_size(_Far(task, reference, checker, axis, seed), case, programs, honest)
        finally:
            free.put(checker)

    most = len(checkers)
    with ThreadPoolExecutor(most, thread_name_prefix="evo-far-sizes") as threads:
        for case, seen in look_ahead(lambda case: threads.submit(look, case), cases, most):
            if seen is not None:
                yield case, seen


def _at_far_size(far: _Far, case: Case, programs: Mapping[str, Program], honest: Bind | None) -> TimedSizes | None:
    """What some blocks tell of the case; None if nothing."""
    task = far.task
    seen = far.sampled(case, programs[case.name])
    blocks = _BLOCKS
    for turn in range(_TURNS):  # blocks may be dealt to places in any order, and few of them have work
        if seen is None or not _falls_short(task, case, *seen):
            break
        blocks = _MANY
        seen = far.sampled(case, programs[case.name], blocks, turn)
    if seen is None:
        return None
    found, row = seen
    if found.fault is None and row is None and not _falls_short(task, case, *seen):
        return TimedSizes(status=Status.CORRECT)
    near = min(task.bench, key=lambda one: cost_of(task, one))
    usual = far.sampled(near, programs[near.name], blocks)
    if usual is None or usual[0].fault is not None or usual[1] is not None or not usual[0].share:
        return None
    is_whole = usual[0].share >= _FAIR_SHARE and reach(task, near, usual[0]) >= REACHED
    short = row is None and found.fault is None
    if short and not is_whole:  # a grid may be larger than its work
        return None
    if honest is not None and far.is_wrong(case, honest([case]), short=short):
        return None
    return _failed(task, case, found, row)


def _falls_short(task: Task, case: Case, found: SampledRun, row: CaseCheck | None) -> bool:
    """Whether what is written is right, and too little of it, or too near to the beginning."""
    is_right = found.fault is None and row is None
    return is_right and (found.share < _LEAST_SHARE or reach(task, case, found) < REACHED)


def reach(task: Task, case: Case, found: SampledRun) -> float:
    """How far towards the end of an output something was written, of the output of which least was."""
    sizes = {tensor.name: math.prod(tensor.dims(case)) for tensor in task.outputs}
    return (
        min((int(at.max(initial=-1)) + 1) / sizes[name] for name, at in found.places.items()) if found.places else 1.0
    )


def _failed(task: Task, case: Case, found: SampledRun, row: CaseCheck | None) -> TimedSizes:
    fault: Fault | None = found.fault
    if fault is not None:
        row = CaseCheck(name=case.name, status=fault.kind.status, reason=fault_reason(fault))
    elif row is None:
        part = f"its blocks write {found.share:.0%} of what they are due"
        if found.share >= _LEAST_SHARE:
            part = f"none of {_MANY} blocks writes beyond {reach(task, case, found):.0%} of an output"
        row = CaseCheck(name=case.name, status=Status.WRONG, reason=f"unwritten: {part}")
    row = replace(row, inputs=("drawn",))
    reason = f"at a size as large as the axes allow, {case.name}: {row.reason}"
    return TimedSizes(status=row.status, stage=Stage.THRESHOLD, reason=reason, case=row, fault=fault)
