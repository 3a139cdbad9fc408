"""Counters by source line of a champion, from the simulator, at a case that is small enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from evo.device import DeviceName, RunRequest
from evo.errors import Crashed, TimedOut
from evo.evaluate.gate import fault_reason
from evo.evaluate.prepare import PrepareFailure, prepare
from evo.evaluate.profile import HotLine, hot_lines, kernel_profiles
from evo.evaluate.session import EvaluationSession
from evo.results.codec import NEVER, NONEMPTY, Serializable
from evo.results.coverage import Coverage
from evo.spec.task import Case, Task

_SEED = 0  # of the inputs whose accesses are counted
_BUDGET = 10**12  # warp instructions: the time limit ends an endless loop


@dataclass(frozen=True, slots=True, kw_only=True)
class LineUtilisation(Serializable):
    """What each line of a variant keeps busy at one case, or why that is not known."""

    task: str  # the task
    chip: str  # the chip whose simulator counted
    arch: str  # what was compiled for
    variant: str  # the variant
    case: Annotated[str, NONEMPTY] = ""  # the case
    lines: tuple[HotLine, ...] = ()  # hottest first
    problem: Annotated[str, NONEMPTY] = ""  # why nothing is known
    text: Annotated[str, NEVER]
    coverage: Annotated[Coverage | None, NEVER] = None  # the outcomes of conditions that this case has seen

    @property
    def title(self) -> str:
        return f"{self.task} {self.variant} for {self.chip}, {self.arch}"


def count_lines(task: Task, text: str, *, variant: str, chip: str, arch: str, limit_s: float) -> LineUtilisation:
    """Run a variant on the simulator of a chip and count by line: the smallest bench case, else the largest check case.

    Each is given `limit_s`. Raises EvoError for the harness's failures; a variant's failure is the heat's problem.
    """
    problem = ""
    with EvaluationSession(DeviceName("sim", chip), arch=arch) as bench:
        for case in _cases(task):
            prepared = prepare(task, text, chip=bench.chip, arch=arch, cases=[case])
            if isinstance(prepared, PrepareFailure):
                problem = f"it does not compile here: {prepared.reason}"
                break
            program = prepared.programs[case.name]
            inputs = bench.reference(task).inputs(case, _SEED)
            request = RunRequest(program=program, inputs=inputs, check_races=False, budget=_BUDGET, coverage=True)
            try:
                result = bench.checker.run(request, time_limit_s=limit_s)
            except TimedOut:
                problem = f"counting was not through after {limit_s:g} s"
                continue
            except Crashed as crash:
                problem = f"counting failed: {crash}"
                continue
            if result.faults:
                problem = fault_reason(result.faults[0])
                break
            kernels = kernel_profiles(program, bench.chip, result.launches)
            lines = hot_lines(kernels, result.launches, text, bench.chip)
            return LineUtilisation(
                task=task.name,
                chip=chip,
                arch=arch,
                variant=variant,
                text=text,
                case=case.name,
                lines=lines,
                coverage=result.coverage,
            )
    return LineUtilisation(task=task.name, chip=chip, arch=arch, variant=variant, text=text, problem=problem)


def _cases(task: Task) -> Sequence[Case]:
    """The smallest bench case by work, then the largest check case."""

    def work(case: Case) -> float:
        return task.work_of(case).get("flop", 0.0) or float(sum(t.size_bytes(case) for t in task.tensors))

    return [min(task.bench, key=work), *([max(task.check, key=work)] if task.check else [])]
