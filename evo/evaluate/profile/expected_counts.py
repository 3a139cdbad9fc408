"""Counts compared with what the task's work formulas, the tensors or the simulator say they must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from evo.results.codec import Decimals, Serializable
from evo.spec.metrics import FMA_PER_HMMA, counted_metrics
from evo.spec.task import Case, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedMetric(Serializable):
    """One metric beside its expectation."""

    COMPUTED: ClassVar = ("exact", "ratio")
    RENAMED: ClassVar = {"source": "from"}

    metric: str  # its name
    value: float  # what was found
    source: str  # `counted` or `measured`
    expected: float  # what should be found
    because: str  # where the expectation comes from

    @property
    def exact(self) -> bool:
        """Whether the two are equal."""
        return self.value == self.expected

    @property
    def ratio(self) -> Annotated[float, Decimals(6)] | None:
        """What was found over what is expected; absent if nothing is."""
        return self.value / self.expected if self.expected else None


def compulsory_bytes(task: Task, case: Case) -> int:
    """Bytes of all tensors once: the least that a cold cache moves."""
    return sum(tensor.size_bytes(case) for tensor in task.tensors)


def compare_counted(task: Task, case: Case, totals: Mapping[str, int], launches: int = 1) -> tuple[ExpectedMetric, ...]:
    """The simulator's whole-grid totals beside the task's work at this case. Only what both sides state."""
    work, counted = task.work_of(case), counted_metrics(totals)
    rows = []
    if counted["hmma"] and "flop" in work:
        because = f"flop / {2 * FMA_PER_HMMA}, at full tiles"
        rows.append(("hmma", counted["hmma"], work["flop"] / (2 * FMA_PER_HMMA), because))
    if counted["ex2"] and "exp" in work:
        rows.append(("ex2", counted["ex2"], work["exp"], "the task's exp"))
    if "cold_bytes" in counted:
        because = "all tensors once" if launches == 1 else f"all tensors once; counted for each of {launches} launches"
        rows.append(("cold_bytes", counted["cold_bytes"], float(compulsory_bytes(task, case)), because))
    return tuple(
        ExpectedMetric(metric=name, value=value, source="counted", expected=expected, because=because)
        for name, value, expected, because in rows
    )


def compare_measured(
    task: Task, case: Case, totals: Mapping[str, int] | None, measured: Mapping[str, float]
) -> tuple[ExpectedMetric, ...]:
    """Nsight Compute's sums over all launches beside the simulator's counts and the compulsory bytes."""
    rows: list[tuple[str, float, float, str]] = []
    if totals is not None:
        counted = counted_metrics(totals)
        for name in ("hmma", "global_sectors", "bank_conflicts", "shared_wavefronts"):
            if name in measured and (measured[name] or counted[name]):
                rows.append((name, measured[name], counted[name], "the simulator's count"))
    if "dram_bytes" in measured:
        rows.append(("dram_bytes", measured["dram_bytes"], float(compulsory_bytes(task, case)), "all tensors once"))
    return tuple(
        ExpectedMetric(metric=name, value=value, source="measured", expected=expected, because=because)
        for name, value, expected, because in rows
    )
