"""What a prompt may tell: I1 the task, I2 past solutions, I3 insights with their measured effect. All of it as data.

Nothing here names a run, a date or a seed of inputs: the same history gives the same prompt, and no prompt tells what
the gate will draw.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from evo.operators.llm.endpoint import data
from evo.operators.llm.reply_edits import one_line
from evo.records.insights import Insight, summarise, unsuccessful
from evo.records.trials import Record, effect
from evo.records.trials.elites import Elite
from evo.results import Evaluation, Status
from evo.spec.chips import Chip
from evo.spec.task import Task
from evo.spec.variant import Variant

_LONGEST_FILE = 12_000  # characters of task.yaml or reference.py
_LONGEST_ELITE = 12_000  # characters
_LONGEST_TRIAL = 500
_BEST, _HARMFUL, _RECENT, _ELITES = 8, 4, 8, 3
_SLOW = 1.5  # times the kernel's time: what is slower teaches little
_HARMS = 0.99
_PLANNING = ("work", "targets", "traffic", "derive", "headline")
_FAMILIES = {"llm": "an edit by a model:", "patch": "an edit by a person:", "ladder": "a hand-written kernel:"}
_RATES = {
    "dram_bytes_per_s": "DRAM {:,.0f} GB/s",
    "l2_bytes_per_clock": "L2 {:g} bytes a clock",
    "shared_bytes_per_clock": "shared memory {:g} bytes a clock and SM",
    "fp32_lanes": "{:g} fp32 FMA a clock and SM",
    "sfu_lanes": "{:g} special functions a clock and SM",
    "tensor_f16_fma": "{:g} fp16 tensor FMA a clock and SM",
}
_VALUE = re.compile(
    r"(?<!rtol )(?<!atol )-?\b\d+\.\d+(?:e[+-]?\d+)?\b"
)  # of elements: they follow from inputs that no prompt may tell


def task_context(task: Task, chip: Chip, arch: str, toolkit: str, parent: Variant) -> list[str]:
    """I1: what is to be computed, on what, under which rules, and the kernel as it stands."""
    reference = (task.folder / "reference.py").read_text(encoding="utf-8", errors="replace")
    described = (task.folder / "task.yaml").read_text(encoding="utf-8", errors="replace")
    flags = ", ".join(task.flags) or "none"
    scalars = ", ".join(scalar.name for scalar in task.scalars)
    order = f"{', '.join(tensor.name for tensor in task.tensors)}, scratch tensors"
    order += f", {scalars}" if scalars else ""
    return [
        f"Task: make the kernel of task {task.name} faster without changing what it computes.",
        *_hardware(chip, arch, toolkit),
        f"Compile flags that `// evo: flags` may name: {flags}.",
        f"Parameters of each kernel, in this order: {order}, then the axes {', '.join(task.axes)} as int (the last"
        " may be left out).",
        "The task. Of `tolerance`, rival_error_factor is how many times the error of a plain kernel an output may"
        " have; `specials` says which zeros, infinities, NaN and denormals of an input count as in the reference.",
        data("task.yaml", _cut(_semantics(described))),
        data("reference.py", _cut(reference)),
        f"The kernel as it stands (variant {parent.id}); your edit applies to this text:",
        data("kernel", parent.text),
    ]


def _semantics(described: str) -> str:
    """task.yaml without the parts that plan tiles: they speak of knobs that a kernel need not have."""
    kept: list[str] = []
    skipping = False
    for line in described.splitlines():
        if line[:1] not in (" ", "#", "", "-"):
            skipping = line.split(":")[0] in _PLANNING
        if not skipping and not (line.startswith("#") and kept and not kept[-1].strip()):
            kept.append(line)
    while kept and (not kept[-1].strip() or kept[-1].startswith("#")):
        kept.pop()
    return "\n".join(kept)


def _hardware(chip: Chip, arch: str, toolkit: str) -> list[str]:
    rates = []
    for name, words in _RATES.items():
        if (rate := chip.rate(name)) is not None:
            guessed = " (estimated)" if name in chip.estimates else ""
            rates.append(words.format(rate / 1e9 if name.endswith("_per_s") else rate) + guessed)
    return [
        f"GPU: {chip.name} ({chip.architecture}), {chip.sms} SMs at {chip.clock_hz / 1e9:.2f} GHz,"
        f" {chip.shared_per_block_optin:,} bytes of shared memory a block at most ({chip.shared_per_sm:,} an SM),"
        f" {chip.registers_per_sm:,} registers and {chip.threads_per_sm:,} threads an SM,"
        f" {chip.registers_per_thread} registers a thread at most, {chip.l2_bytes / 2**20:.0f} MiB of L2. Compiled by"
        f" {toolkit} for {arch}.",
        f"Rates: {', '.join(rates)}." if rates else "",
    ]


def past_solutions(elites: Sequence[Elite], own_us: float | None) -> list[str]:
    """I2: other good variants not slower than the kernel by much, whole, each with its speed against the kernel's."""
    elites = [elite for elite in elites if own_us is None or elite.time_us < _SLOW * own_us][:_ELITES]
    found = ["Other good variants of this task, fastest first, whole:"]
    for elite in elites:
        if len(elite.text) > _LONGEST_ELITE:
            continue  # cut, it would only mislead
        speed = f"{own_us / elite.time_us:.2f}x the kernel's speed" if own_us else f"{elite.time_us:.4g} us"
        header = f"{elite.variant}: {speed} ({elite.timing}, geometric mean of the scored cases)"
        found += [f"{header}; {one_line(elite.summary, 100)}", data(f"variant {elite.variant}", elite.text)]
    return found if len(found) > 1 else []


def insights(records: Sequence[Record], task: str, places: tuple[str, str], kernel: Variant) -> list[str]:
    """I3: what kinds of change have brought on this chip, what they have cost, and what was tried last."""
    here = [record for record in records if record.task == task and record.place[:2] == places]
    timed = [insight for insight in summarise(here) if insight.median is not None and _applies(insight, kernel)]
    helped = [insight for insight in timed if insight.kept][:_BEST]
    rest = [insight for insight in reversed(timed) if not insight.kept]
    harmed = [insight for insight in rest if (insight.median or 0) < _HARMS][:_HARMFUL]
    lines = [f"+ {one_line(_named(insight))}" for insight in helped]
    lines += [f"- {one_line(_named(insight))}" for insight in harmed]
    found = []
    if lines:
        found += ["What kinds of change have brought so far (+ kept, - slower and reverted), from records:"]
        found += [data("insights", "\n".join(lines))]
    recent = [_trial(record) for record in _latest(here)]
    if recent:
        found += [
            "The latest trials, newest first; do not propose again what failed:",
            data("trials", "\n".join(recent)),
        ]
    return found


def _applies(insight: Insight, kernel: Variant) -> bool:
    """Whether the kernel has the knob that an insight is about."""
    words = insight.change.split()
    return not (insight.operator.startswith("rules.knob") and words) or words[-1] in kernel.knob_values


def _named(insight: Insight) -> str:
    """An insight with its operator in words that a model knows."""
    family = insight.operator.split("/")[0]
    return insight.sentence().replace(insight.operator, _FAMILIES.get(family, family), 1)


def _latest(records: Sequence[Record]) -> list[Record]:
    ordered = sorted(records, key=lambda record: (record.run, record.number), reverse=True)
    return [record for record in ordered if record.proposed][:_RECENT]


def _trial(record: Record) -> str:
    thought = (
        f" (because: {one_line(record.reason, 120)})" if record.operator in ("llm", "patch") and record.reason else ""
    )
    if record.kept:
        return one_line(f"kept: {record.summary}{thought}: {effect(record)}", _LONGEST_TRIAL)
    (why,) = unsuccessful([record])
    reason = _VALUE.sub("...", why.reason) if record.status is Status.WRONG else why.reason
    brought = f"{effect(record)}; " if record.gain is not None else ""
    return one_line(f"not kept: {record.summary}{thought}: {record.status.value}, {brought}{reason}", _LONGEST_TRIAL)


def timed_record(records: Sequence[Record], variant: str, places: tuple[str, str]) -> Record | None:
    """The latest record of a variant with times on this chip, a kept one first."""
    found = [r for r in records if r.variant == variant and r.status.passed and r.bench and r.place[:2] == places]
    return kept_record(records, variant, places) or (found[-1] if found else None)


def not_the_champion(records: Sequence[Record], own: Evaluation | None, task: Task, places: tuple[str, str]) -> str:
    """What a prompt says of a kernel that is not the champion; nothing of one that is."""
    kept = [r for r in records if r.task == task.name and r.kept and r.place[:2] == places]
    if not kept or own is None or kept[-1].variant == own.variant:
        return ""
    before, after = own.score_us(task.score), kept[-1].evaluation.score_us(task.score)
    if before is None or after is None:
        return ""
    return (
        f"This kernel is not the champion, which takes {after / before:.2f} times its time. It is shown because nothing"
        " was gained at the champion for a while. A change of it is kept if the result beats the champion."
    )


def kept_record(records: Sequence[Record], variant: str, places: tuple[str, str]) -> Record | None:
    """The latest kept record of a variant on this chip."""
    found = [r for r in records if r.variant == variant and r.kept and r.place[:2] == places]
    return found[-1] if found else None


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_FILE else text[:_LONGEST_FILE] + "\n... cut"


_STEPS, _WORDS = 8, 90
_REASONS = 4


def trial_summary(records: Sequence[Record], run: str, every: int) -> list[str]:
    """The summary of the first N, 2 N, 3 N ... trials of a run, whichever was reached last; else nothing."""
    own = sorted((r for r in records if r.run == run and r.proposed), key=lambda record: record.number)
    count = len(own) // every * every if every else 0
    if not count:
        return []
    own = own[:count]
    kept = [record for record in own if record.kept]
    gain = math.prod(record.own_ratio or 1.0 for record in kept)
    lines = [f"{count} trials, {len(kept)} kept, together {gain:.2f}x"]
    lines += [f"kept: {one_line(r.summary, _WORDS)}: {r.own_ratio or 1.0:.2f}x" for r in kept[-_STEPS:]]
    lines += _lost(own)
    lines += _by(own, "aim", "aim")
    lines += _kinds(own)
    return [f"What the first {count} trials of this run have shown:", data("summary", "\n".join(lines))]


def _lost(own: Sequence[Record]) -> list[str]:
    """Why trials were not kept, the most frequent reason first."""
    reasons: Counter[str] = Counter()
    for record in own:
        if not record.kept:
            decision = record.evaluation.decision
            ground = decision.ground if decision is not None and decision.ground is not None else None
            reasons[str(ground.value).replace("_", " ") if ground is not None else record.status.value] += 1
    return [f"not kept: {reason}: {count}" for reason, count in reasons.most_common(_REASONS)]


def _by(own: Sequence[Record], name: str, word: str) -> list[str]:
    tried = Counter(str(record.arguments[name]) for record in own if record.arguments.get(name))
    kept = Counter(str(record.arguments[name]) for record in own if record.kept and record.arguments.get(name))
    return [f"{word} {value}: {kept[value]} of {count} kept" for value, count in sorted(tried.items())]


def _kinds(own: Sequence[Record]) -> list[str]:
    tried = Counter(record.kind for record in own)
    kept = Counter(record.kind for record in own if record.kept)
    if len(tried) < 2:
        return []
    return [f"{kind}: {kept[kind]} of {count} kept" for kind, count in sorted(tried.items())]
