"""Counters by source line of a champion, from the simulator, at a case that is small enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from evo.device import DeviceName
from evo.evaluate.profile import HotLine
from evo.evaluate.profile.counting import Counts, counted
from evo.evaluate.session import EvaluationSession
from evo.results.codec import NEVER, NONEMPTY, Serializable
from evo.results.coverage import Coverage
from evo.spec.task import Case, Task


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
    known = {"task": task.name, "chip": chip, "arch": arch, "variant": variant, "text": text}
    counts, at = Counts(), ""
    with EvaluationSession(DeviceName("sim", chip), arch=arch) as bench:
        for case in _cases(task):
            counts = counted(task, text, bench, case, limit_s=limit_s, coverage=True)
            if counts.kernels:
                at = case.name
                break
    return LineUtilisation(**known, case=at, lines=counts.lines, coverage=counts.coverage, problem=counts.problem)


def _cases(task: Task) -> Sequence[Case]:
    """The smallest bench case by work, then the largest check case."""

    def work(case: Case) -> float:
        return task.work_of(case).get("flop", 0.0) or float(sum(t.size_bytes(case) for t in task.tensors))

    return [min(task.bench, key=work), *([max(task.check, key=work)] if task.check else [])]
