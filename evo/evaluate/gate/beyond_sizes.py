"""Sizes longer than any that an adopted task lists: a few blocks of the variant beside a few of the original.

Its check cases end where the simulator runs the original whole. A variant that leaves out what is beyond a length, or
counts it in too few bits, is right at all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from evo.device import Arrays, BenchCase, Program, SampledRun, SampleRequest
from evo.device.remote_device import RemoteSimulator
from evo.errors import Crashed, TaskInvalid, TimedOut
from evo.evaluate.gate.far_sizes import CERTAIN, REACHED, reach
from evo.evaluate.gate.run_cases import Bind, fault_reason
from evo.evaluate.gate.scaled_cases import named_case
from evo.evaluate.gate.threshold_cases import AxisSpace, elements_of
from evo.results import CaseCheck, Fault, FaultKind, Status
from evo.spec.dtypes import NUMPY
from evo.spec.element_types import ROUNDOFF, is_float
from evo.spec.input_distributions import perturbed
from evo.spec.reference import Reference
from evo.spec.task import Case, Task

_BEYOND = (262_151, 131_111, 33_029, 17_011)  # lengths that a counter of 16 bits and most buffers do not reach
_LONGER = 4  # than any that a case has
_ELEMENTS = 1 << 24  # of all tensors
_BLOCKS = (8, 2)  # of the original: so many, or fewer where they are dear
_BUDGET, _MORE_WORK = 12_000_000, 4  # of the original, in warp instructions; how much more another may do
_MANY = 512  # blocks, where few have written nothing at the end
_SHORT = "unwritten"
_ROUNDED = 8.0  # times the tolerance
_ERRS = 16.0  # times what the original usually moves by
_PART, _FEW_OTHERS = 0.01, 0.25  # of an output's size that sums in another order differ by at most; of whole numbers


def wrong_beyond(
    task: Task, bind: Bind, honest: Bind, reference: Reference, checker: RemoteSimulator, seed: int
) -> Iterator[tuple[Case, CaseCheck | None, Fault | None]]:
    """Sizes with an axis longer than any case has, at which some blocks of an adopted kernel give what some of the
    variant's give too, or something else.

    What the original computes at all of such a size nobody can afford: forces between all pairs of bodies. Its blocks
    give its own precision, so what is told here is what was left out, not what was rounded.
    """
    for axis in AxisSpace.of(task).free:
        for case in _longer(task, axis):
            inputs = _drawn(reference, case, seed)
            own, ours = honest([case]).get(case.name), bind([case]).get(case.name)
            if inputs is None or own is None or ours is None:
                continue
            theirs = _some_blocks(checker, own, inputs, seed, _BUDGET)
            if theirs is None or theirs.fault is not None:  # it is dear, or the original does not take it
                continue
            found = _some_blocks(checker, ours, inputs, seed, _MORE_WORK * _BUDGET)
            if found is None or (found.fault is not None and found.fault.kind not in CERTAIN):
                continue
            reason = fault_reason(found.fault) if found.fault is not None else _unlike(task, case, found, theirs)
            near = None
            if found.fault is None and reason:
                near = _some_blocks(checker, own, _moved(task, inputs, seed), seed, _BUDGET)
                reason = _unlike(task, case, found, theirs, near)
            if reason.startswith(_SHORT):  # or the blocks that write are few of its grid
                more = _some_blocks(checker, ours, inputs, seed, _MORE_WORK * _BUDGET, (_MANY,))
                reason = reason if more is None or more.fault is not None else _unlike(task, case, more, theirs, near)
            if found.fault is None and reason and not _tells(task, bind, honest, reference, checker, seed):
                break
            status = found.fault.kind.status if found.fault is not None else Status.WRONG
            row = CaseCheck(name=case.name, status=status, reason=reason, inputs=("drawn",)) if reason else None
            yield case, row, found.fault
            break


def _tells(task: Task, bind: Bind, honest: Bind, reference: Reference, checker: RemoteSimulator, seed: int) -> bool:
    """Whether as many blocks give the same at a timed size: else what they give depends on others, as sums by atomics
    do, or they are dealt to places in another way.
    """
    usual = max(task.bench, key=lambda case: math.prod(case.axes.values()))
    inputs = reference.inputs(usual, seed)
    runs = []
    for programs in (bind([usual]), honest([usual])):
        run = _some_blocks(checker, programs[usual.name], inputs, seed, _MORE_WORK * _BUDGET) if programs else None
        if run is None or run.fault is not None or (run.whole and run.atomics):
            return False
        runs.append(run)
    return not _unlike(task, usual, *runs)


def _longer(task: Task, axis: str) -> Iterator[Case]:
    """The longest first, beside the shortest lengths of the other axes, together or as a check case has them."""
    space = AxisSpace.of(task)
    shortest = {name: low for name, (low, _) in space.spans.items()}
    bases = (shortest, min(task.check, key=lambda case: math.prod(case.axes.values())).axes)
    for length in sorted((_LONGER * space.spans[axis][1] + 1, *_BEYOND), reverse=True):
        for base in bases:
            step = max(1, space.steps[axis])
            axes = {**task.check[0].axes, **base, axis: -(-length // step) * step}
            space.settle(axes, {axis: axes[axis]})
            case = named_case(axes)
            is_stepped = all(axes[name] % step == 0 for name, step in space.steps.items() if step)
            is_longer = axes[axis] > space.spans[axis][1] and is_stepped and space.may_be(task, axes)
            if is_longer and elements_of(task, case) <= _ELEMENTS:
                yield case


def _drawn(reference: Reference, case: Case, seed: int) -> Arrays | None:
    try:
        return reference.inputs(case, seed)
    except TaskInvalid:  # its sizes do not go together
        return None


def _some_blocks(
    checker: RemoteSimulator,
    program: Program,
    inputs: Arrays,
    seed: int,
    budget: int,
    counts: tuple[int, ...] = _BLOCKS,
) -> SampledRun | None:
    """What the first, the last and some other blocks did; of fewer blocks if so many are too dear."""
    for blocks in counts:
        case = BenchCase(program=program, inputs=inputs)
        asked = SampleRequest(case=case, draw=seed, blocks=blocks, budget=budget, check_races=False, only_changed=True)
        try:
            found = checker.run_sample(asked)
        except (TimedOut, Crashed):
            return None
        if found.fault is None or found.fault.kind is not FaultKind.BUDGET:
            return found
    return None


def _usual_distance(output: str, theirs: SampledRun, near: SampledRun | None) -> float:
    """The median, so that a few elements that another branch gives do not count."""
    if near is None or near.fault is not None:
        return 0.0
    _, ours, own = np.intersect1d(near.places[output], theirs.places[output], return_indices=True)
    apart = near.values[output][ours].astype(np.float64) - theirs.values[output][own].astype(np.float64)
    return float(np.median(np.abs(apart))) if np.isfinite(apart).all() and len(apart) else 0.0


def _moved(task: Task, inputs: Arrays, seed: int) -> Arrays:
    """Inputs a rounding away: what the original gives for them is as right as what it gives."""
    rng = np.random.default_rng([seed, 85])
    floats = [t for t in task.inputs if is_float(t.dtype)]
    near = {t.name: perturbed(inputs[t.name], 2 * ROUNDOFF[t.dtype], rng).astype(NUMPY[t.dtype]) for t in floats}
    return inputs | near


def _unlike(task: Task, case: Case, found: SampledRun, theirs: SampledRun, near: SampledRun | None = None) -> str:
    """What the variant gives otherwise where both wrote; nothing if all is alike but for roundings.

    near: what the original gives for inputs a rounding away. Long sums in its order may err more than the tolerance.
    """
    for tensor in task.outputs:
        _, ours, own = np.intersect1d(found.places[tensor.name], theirs.places[tensor.name], return_indices=True)
        got, wanted = (run.values[tensor.name][at].astype(np.float64) for run, at in ((found, ours), (theirs, own)))
        known = np.isfinite(wanted)
        got, wanted = got[known], wanted[known]
        if not len(wanted):
            continue
        if is_float(tensor.dtype):
            size = float(np.sqrt(np.mean(np.square(wanted))))
            allowed = np.maximum(_PART * size, _ROUNDED * (task.tolerance.atol + task.tolerance.rtol * np.abs(wanted)))
            allowed += _ERRS * _usual_distance(tensor.name, theirs, near)
            most = 0
        else:
            allowed, most = np.full(len(wanted), task.tolerance.integers), int(_FEW_OTHERS * len(wanted))
        off = np.flatnonzero(~(np.abs(got - wanted) <= allowed))
        if len(off) > most:
            at = int(off[0])
            return f"{tensor.name} is {got[at]:g} where the original gives {wanted[at]:g} ({len(off)} of {len(wanted)})"
    part = reach(task, case, found)
    is_short = part < REACHED <= reach(task, case, theirs)
    return f"{_SHORT}: none of its blocks writes beyond {part:.0%} of an output" if is_short else ""
