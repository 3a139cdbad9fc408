"""What a text does at one case, counted on the simulator: its kernels and its source lines."""

from __future__ import annotations

from dataclasses import dataclass

from evo.device import RunRequest
from evo.errors import CandidateFailed
from evo.evaluate.gate import fault_reason
from evo.evaluate.prepare import PrepareFailure
from evo.evaluate.profile.hot_lines import HotLine, hot_lines
from evo.evaluate.profile.kernels import KernelProfile, kernel_profiles
from evo.evaluate.session import EvaluationSession
from evo.results.coverage import Coverage
from evo.spec.task import Case, Task

_SEED = 0  # of the inputs whose accesses are counted; never one of the gate's
_BUDGET = 10**12  # warp instructions: the time limit ends an endless loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """kernels, lines: hottest first; without any, `problem` says why."""

    kernels: tuple[KernelProfile, ...] = ()
    lines: tuple[HotLine, ...] = ()
    coverage: Coverage | None = None
    problem: str = ""


def counted(
    task: Task, text: str, bench: EvaluationSession, case: Case, *, limit_s: float, coverage: bool = False
) -> Counts:
    """Run a text at a case without checks. coverage: also the outcomes of its conditions."""
    prepared = bench.prepare(task, text, path="<text>")
    if isinstance(prepared, PrepareFailure):
        return Counts(problem=prepared.reason)
    program, inputs = prepared.programs[case.name], bench.reference(task).inputs(case, _SEED)
    request = RunRequest(
        program=program, inputs=inputs, check_races=False, budget=_BUDGET, coverage=coverage, lines=True
    )
    try:
        ran = bench.checker.run(request, time_limit_s=limit_s)
    except CandidateFailed as error:
        return Counts(problem=f"case {case.name} cannot be counted in {limit_s:g} s: {error}")
    if ran.faults:
        return Counts(problem=fault_reason(ran.faults[0]))
    kernels = kernel_profiles(program, bench.chip, ran.launches)
    lines = hot_lines(kernels, ran.launches, text, bench.chip)
    return Counts(kernels=kernels, lines=lines, coverage=ran.coverage)
