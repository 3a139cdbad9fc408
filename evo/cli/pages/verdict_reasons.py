"""Why a trial was judged so: where it ended, the reason, and the figures that the verdict rests on."""

from __future__ import annotations

from collections.abc import Iterator

from evo.cli.pages.highlight import clean, highlighted, side_by_side
from evo.cli.pages.html_parts import LONGEST, region, table
from evo.records.trials import Record
from evo.results import CaseBench, CaseEvidence, Evidence
from evo.results.wording import bound_words, clipped, duration, gain_words, microseconds, plural, ratio

_MOST_FAULTS = 8
_MOST_CASES = 40


def verdict_words(record: Record) -> str:
    """`kept`, `not kept`, `undecided`, or for a trial that did not pass, its status."""
    if record.kept:
        return "start" if record.begins else "kept"
    if not record.status.passed:
        return record.status.value.replace("_", " ")
    return "undecided" if record.outcome == "inconclusive" else "not kept"


def reason_of(record: Record) -> str:
    decided = record.decision.reason if record.decision is not None else ""
    return record.evaluation.reason or decided


def verdict_reasons(record: Record, commit: str | None) -> str:
    """The verdict with its reason, then its figures as tables."""
    facts = "".join(
        f"<div><dt>{name}</dt><dd>{clean(clipped(text, LONGEST))}</dd></div>"
        for name, text in _facts(record, commit)
        if text
    )
    parts = [f'<dl class="why">{facts}</dl>', _comparison(record), _gate(record), _faults(record), _resources(record)]
    return "".join(parts)


def change(record: Record) -> str:
    """What was changed, beside the parent's text; the whole text of a start."""
    if record.parent is None:
        lines = plural(record.diff.count("\n") + 1, "line")
        source = "\n".join(highlighted(record.diff))
        return f"<p>The start: {lines}.</p>{region(f'<pre>{source}</pre>', f'Source of {record.variant}')}"
    return side_by_side(record.diff, f"What changed from {record.parent} to {record.variant}")


def _facts(record: Record, commit: str | None) -> Iterator[tuple[str, str]]:
    decision, evaluation = record.decision, record.evaluation
    yield "verdict", verdict_words(record)
    yield "ended at", evaluation.stage.value.replace("_", " ") if evaluation.stage is not None else ""
    yield "because", reason_of(record).replace(" -> ", " → ")  # which no line is broken within
    if decision is not None:
        yield "rests on", decision.ground.value.replace("_", " ") if decision.ground is not None else ""
        yield "decided by case", decision.case or ""
        if decision.gain is not None:
            yield "over its parent", f"{gain_words(decision.gain)}, {record.timing}"
        if decision.evidence is not None:
            yield "evidence", _evidence_words(decision.evidence)
    yield "operator", f"{record.operator} ({record.kind})"
    yield "why proposed", record.reason
    yield "expected", record.expected
    yield "risk", record.risk
    yield "variant", record.variant
    yield "parent", record.parent or "none"
    if isinstance(rival := record.arguments.get("rival"), str):
        yield "held against", rival
    yield "trial", record.trial
    yield "commit", commit[:12] if commit else ""
    yield "took", _times(record)


def _evidence_words(evidence: Evidence) -> str:
    words = []
    if evidence.e_value is not None and evidence.needed is not None:
        words.append(f"e-value {evidence.e_value:,.4g} of {evidence.needed:,.4g} needed")
    if evidence.pairs is not None:
        words.append(f"{evidence.pairs} pairs of measurements")
    if evidence.margin is not None:
        words.append(f"a margin of {evidence.margin:.0%} less time")
    if evidence.model_version:
        calibration = f", {evidence.calibration}" if evidence.calibration else ""
        words.append(f"both times modelled by {evidence.model_version}{calibration}")
    if evidence.probability is not None:
        words.append(f"{evidence.probability:.0%} of measured pairs with such a modelled gain were faster")
    return "; ".join(words)


def _times(record: Record) -> str:
    if record.elapsed_s is None:
        return ""
    stages = sorted(record.evaluation.stages_s.items(), key=lambda item: -item[1])[:4]
    listed = ", ".join(f"{name} {duration(seconds)}" for name, seconds in stages if seconds >= 0.005)
    return f"{duration(record.elapsed_s)}{f': {listed}' if listed else ''}"


def _comparison(record: Record) -> str:
    evidence = record.evidence
    by_case = evidence.cases if evidence is not None else {}
    rows = [_case_row(case, by_case.get(case.name)) for case in record.bench[:_MOST_CASES]]
    if not rows:
        return ""
    head = ["case", f">parent µs, {record.timing}", f">this µs, {record.timing}", ">gain", "bound by", "library"]
    filled = [at for at in range(len(head)) if any(row[at] for row in rows)]
    rows = [[row[at] for at in filled] for row in rows]
    return table([head[at] for at in filled], rows, f"Times by case, {record.timing}")


def _case_row(case: CaseBench, evidence: CaseEvidence | None) -> list[str]:
    now, parent, gain, bound = case.time_us, "", "", bound_words(case.limiter or "")
    if evidence is not None:
        if evidence.parent_us is not None:
            parent = microseconds(evidence.parent_us)
            gain = ratio(evidence.parent_us / now) if now else ""
        if evidence.ratio is not None:
            parent = microseconds(now * evidence.ratio)
            gain = ratio(evidence.ratio)
            if evidence.low is not None and evidence.high is not None:
                gain += f" [{ratio(evidence.low)}, {ratio(evidence.high)}]"
        if evidence.limiter and evidence.limiter_after and evidence.limiter != evidence.limiter_after:
            bound = f"{bound_words(evidence.limiter)}, now {bound_words(evidence.limiter_after)}"
    library = f"{case.baseline.name} {microseconds(case.baseline.p50_us)} µs" if case.baseline is not None else ""
    return [case.name, parent, microseconds(now), gain, bound, library]


def _gate(record: Record) -> str:
    check = record.evaluation.check
    if check is None or not check.cases:
        return ""
    rows = []
    for case in check.cases[:_MOST_CASES]:
        budget = ", ".join(f"{name} {value:.3g}" for name, value in case.budget.items())
        wrong = ""
        if case.mismatch is not None:
            at = case.mismatch.element if case.mismatch.index else case.mismatch.tensor
            wrong = f"{at}: {case.mismatch.got} instead of {case.mismatch.expected}"
        error = f"{case.max_error:.3g}" if case.max_error is not None else ""
        rows.append([case.name, case.status.value, error, budget, wrong or case.reason or ""])
    shown = table(["case", "status", ">largest error", "budget", "*what was wrong"], rows, "Correctness by case")
    passed = sum(case.status.passed for case in check.cases)
    words = f"Correctness: {passed} of {plural(len(check.cases), 'case')} passed"
    return f"<details class='more'><summary>{words}</summary>{shown}</details>"


def _faults(record: Record) -> str:
    check = record.evaluation.check
    if check is None or not check.faults:
        return ""
    rows = [
        [
            fault.kind.value.replace("_", " "),
            fault.kernel,
            fault.source_line or None,
            fault.block,
            fault.thread,
            clipped(fault.message, LONGEST),
        ]
        for fault in check.faults[:_MOST_FAULTS]
    ]
    return table(["fault", "kernel", ">line", "block", "thread", "*what"], rows, "Faults that were seen")


def _resources(record: Record) -> str:
    compiled = record.evaluation.compile
    if compiled is None or not compiled.kernels:
        return ""
    rows = []
    for kernel in compiled.kernels[:_MOST_FAULTS]:
        axes = ", ".join(f"{name}={value}" for name, value in kernel.axes.items())
        spills = (kernel.spill_store_bytes or 0) + (kernel.spill_load_bytes or 0)
        rows.append(
            [
                kernel.name,
                axes,
                kernel.registers,
                spills if kernel.spill_store_bytes is not None else None,
                kernel.shared_bytes,
            ]
        )
    head = ["kernel", "compiled for", ">registers", ">spilled bytes", ">shared bytes"]
    words = f"Resources of {plural(len(compiled.kernels), 'kernel')}"
    shown = table(head, rows, "Resources, as the compiler reports them")
    return f"<details class='more'><summary>{words}</summary>{shown}</details>"
