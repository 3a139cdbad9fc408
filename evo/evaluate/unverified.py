"""Code that nothing verified has run, as far as the sizes of a launch decide it: a last look, or a refusal."""

from __future__ import annotations

from collections.abc import Sequence

from evo.device import Program
from evo.errors import TaskInvalid
from evo.evaluate import gate
from evo.evaluate.looking_bench import LookingBench
from evo.evaluate.prepare import Prepared
from evo.results import Stage, Status
from evo.spec.task import Case, Task

_LOOKS = 8  # at sizes whose outcomes nothing else has met; a variant with more of them is refused
_BOUND = 4  # sizes that are tried, since a variant may refuse some


def unverified(
    bench: LookingBench, task: Task, prepared: Prepared, seed: int, ran: Sequence[Case]
) -> tuple[gate.TimedSizes | None, int]:
    """What is wrong, or cannot be verified, at sizes where conditions come out as at none that was run; None if
    nothing. And how many sizes were looked at besides.
    """
    own = bench.reference(task).beside()
    known = [*ran, *task.bench]
    count = 0
    variant, programs = prepared.variant, prepared.programs
    for look in range(_LOOKS + 1):
        unmet = gate.unmet_outcomes(task, variant, programs, bench.chip, seed, known, bench.checker)
        tried = ((one, _first_allowed(bench, task, prepared, one.cases)) for one in unmet)
        found = next(((one, allowed) for one, allowed in tried if allowed is not None), None)
        if found is None:
            break
        one, (case, program) = found
        if look == _LOOKS:  # or as many harmless conditions would hide one that is not
            return _refused(one, case), count
        known.append(case)
        try:
            seen = gate.timed_sizes(task, {case.name: program}, own, bench.checker, seed, cases=[case])
        except TaskInvalid:  # its sizes do not go together, in a way that the task's cases do not show
            continue
        if not seen.status.passed:
            return seen, count
        if seen.unseen is not None:
            return _refused(one, case), count
        count += 1
    return None, count


def _first_allowed(
    bench: LookingBench, task: Task, prepared: Prepared, cases: Sequence[Case]
) -> tuple[Case, Program] | None:
    """The first of these sizes that the variant can be launched at."""
    few = cases[:_BOUND]
    bound = bench.bound(task, prepared, few)
    return next(((case, bound[case.name]) for case in few if case.name in bound), None)


def _refused(one: gate.UnmetOutcome, case: Case) -> gate.TimedSizes:
    line = "" if one.source_line is None else f"line {one.source_line}: "
    outcome = f"`{one.instruction}` is {str(one.outcome).lower()} at sizes such as {case.name}"
    reason = f"{line}unverified code: {outcome}, and at none that could be verified"
    return gate.TimedSizes(status=Status.REFUSED, stage=Stage.THRESHOLD, reason=reason)
