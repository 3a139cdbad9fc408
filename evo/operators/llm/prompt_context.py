"""What a prompt may tell: I1 the task, I2 past solutions, I3 insights with their measured effect. All of it as data.

Nothing here names a run, a date or a seed of inputs: the same history gives the same prompt, and no prompt tells what
the gate will draw.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from evo.operators.llm.endpoint import data
from evo.operators.llm.replies import one_line
from evo.records.insights import summarise, unsuccessful
from evo.records.trials import Record, effect
from evo.records.trials.elites import Elite
from evo.results import Json, Status
from evo.spec.chips import Chip
from evo.spec.task import Task
from evo.spec.variant import Variant

_LONGEST_FILE = 12_000  # characters of task.yaml or reference.py
_BEST, _HARMFUL, _RECENT = 8, 4, 6
_LONGEST_DIFF = 120  # lines
_VALUE = re.compile(r"-?\b\d+\.\d+(?:e[+-]?\d+)?\b")  # of elements: they follow from inputs that no prompt may tell


def task_context(task: Task, chip: Chip, arch: str, toolkit: str, parent: Variant) -> list[str]:
    """I1: what is to be computed, on what, under which rules, and the kernel as it stands."""
    reference = (task.folder / "reference.py").read_text(encoding="utf-8", errors="replace")
    described = (task.folder / "task.yaml").read_text(encoding="utf-8", errors="replace")
    hardware = (
        f"GPU: {chip.name} ({chip.architecture}), {chip.sms} SMs, {chip.shared_per_block_optin:,} bytes of shared"
        f" memory a block at most, {chip.registers_per_sm:,} registers and {chip.threads_per_sm:,} threads an SM,"
        f" {chip.l2_bytes / 2**20:.0f} MiB of L2. Compiled by {toolkit} for {arch}."
    )
    flags = ", ".join(task.flags) or "none"
    return [
        f"Task: make the kernel of task {task.name} faster without changing what it computes.",
        hardware,
        f"Compile flags that `// evo: flags` may name: {flags}.",
        data("task.yaml", _cut(described)),
        data("reference.py", _cut(reference)),
        f"The kernel as it stands (variant {parent.id}); your edit applies to this text:",
        data("kernel", parent.text),
    ]


def present_times(own: Record | None) -> str:
    """The kernel's times by case, where it has some."""
    if own is None:
        return ""
    times = [f"{name} {us:.4g}" for name, us in own.evaluation.times_us.items()]
    return f"Its {own.timing} times in microseconds: {', '.join(times)}." if times else ""


def past_solutions(elites: Sequence[Elite], parent: Variant) -> list[str]:
    """I2: other good variants, each with its time against the kernel's and its difference from it."""
    if not elites:
        return []
    found = ["Other good variants of this task, best first, as differences from the kernel above:"]
    for elite in elites:
        lines = list(
            difflib.unified_diff(parent.text.splitlines(), elite.text.splitlines(), "kernel", elite.variant, "", "", 1)
        )
        shown = [line.rstrip("\n") for line in lines[:_LONGEST_DIFF]]
        if len(lines) > _LONGEST_DIFF:
            shown.append(f"... {len(lines) - _LONGEST_DIFF} more lines")
        idea = one_line(elite.summary, 100)
        header = f"{elite.variant}: {elite.time_us:.4g} us {elite.timing}, geometric mean of cases; {idea}"
        found.append(data(f"variant {elite.variant}", "\n".join([header, *shown])))
    return found


def insights(records: Sequence[Record], task: str, places: tuple[str, str]) -> list[str]:
    """I3: what kinds of change have brought on this chip, what they have cost, and what was tried last."""
    here = [record for record in records if record.task == task and record.place[:2] == places]
    ranked = summarise(here)
    timed = [insight for insight in ranked if insight.median is not None]
    helped = [insight for insight in timed if (insight.median or 0) > 1][:_BEST]
    harmed = [insight for insight in reversed(timed) if (insight.median or 0) <= 1][:_HARMFUL]
    lines = [f"+ {one_line(insight.sentence())}" for insight in helped]
    lines += [f"- {one_line(insight.sentence())}" for insight in harmed]
    found = []
    if lines:
        found += ["What kinds of change have brought so far (+ faster, - not), from records:"]
        found += [data("insights", "\n".join(lines))]
    recent = [_trial(record) for record in _latest(here)]
    if recent:
        found += [
            "The latest trials, newest first; do not propose again what failed:",
            data("trials", "\n".join(recent)),
        ]
    return found


def _latest(records: Sequence[Record]) -> list[Record]:
    ordered = sorted(records, key=lambda record: (record.run, record.number), reverse=True)
    return [record for record in ordered if record.proposed][:_RECENT]


def _trial(record: Record) -> str:
    if record.kept:
        return one_line(f"kept: {record.summary}: {effect(record)}")
    (why,) = unsuccessful([record])
    reason = _VALUE.sub("...", why.reason) if record.status is Status.WRONG else why.reason
    brought = f"{effect(record)}; " if record.gain is not None else ""
    return one_line(f"not kept: {record.summary}: {record.status.value}, {brought}{reason}")


def kept_record(records: Sequence[Record], variant: str, places: tuple[str, str]) -> Record | None:
    """The latest kept record of a variant on this chip."""
    found = [r for r in records if r.variant == variant and r.kept and r.place[:2] == places]
    return found[-1] if found else None


def usage_of(record: Record) -> dict[str, Json]:
    """What a record's proposal cost at the language model; {} for other operators."""
    usage = record.arguments.get("llm")
    return usage if isinstance(usage, dict) else {}


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_FILE else text[:_LONGEST_FILE] + "\n... cut"
