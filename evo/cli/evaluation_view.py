"""Evaluations, compile reports and coverage as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evo.cli.terminal import microseconds, out, out_note, out_table, out_words, paint, plain, ratio, verdict_colour

if TYPE_CHECKING:
    from evo.results import (
        CaseBench,
        CaseCheck,
        CompileReport,
        Decision,
        Evaluation,
        Evidence,
        Fault,
        Gain,
        KernelResources,
        SanitizerReport,
    )
    from evo.results.coverage import Coverage


def coloured(word: str) -> str:
    return paint(word, verdict_colour(word))


def show_check(evaluation: Evaluation, path: Path) -> None:
    """The gate's verdict, a row per case, and each fault with its source line."""
    environment = evaluation.environment
    check = evaluation.check
    words = f"{environment.device}  {environment.arch}"
    if check is not None and check.seed is not None:
        words += f"  seed {check.seed}"
    out(f"{paint(evaluation.variant, 'cyan')}  {coloured(evaluation.status.value)}  {words}")
    if check is not None and check.cases:
        out()
        out_table(
            ["case", "status", ">max error", ">allowed", ">rms error", ">allowed", "also with"],
            [_check_row(case) for case in check.cases],
        )
    if check is not None and check.sanitizer is not None:
        out()
        out(f"compute-sanitizer: {check.sanitizer.state}" + _told(check.sanitizer))
    if check is not None and check.unseen:
        out()
        out_words(f"{paint('not looked at', 'yellow')}: {plain(check.unseen)}")
    if evaluation.reason:
        out()
        out_words(f"{paint(evaluation.status.value, 'red')}: {plain(evaluation.reason)}")
    if evaluation.compile is not None:
        _show_excerpt(evaluation.compile)
    for fault in check.faults if check is not None else ():
        out()
        show_fault(fault, path)


def _told(sanitizer: SanitizerReport) -> str:
    by = f" ({', '.join(sanitizer.tools)})" if sanitizer.tools else ""
    return by + (f": {plain(sanitizer.reason)}" if sanitizer.reason and sanitizer.state != "found" else "")


def _check_row(case: CaseCheck) -> list[str]:
    def number(value: float | None) -> str:
        return f"{value:.2e}" if value is not None else ""

    budget = case.budget
    return [
        case.name,
        coloured(case.status.value),
        number(case.max_error),
        number(budget.get("max_error")) or _allclose(budget),
        number(case.rms_error),
        number(budget.get("rms_error")),
        ", ".join(name for name in case.inputs if name != "drawn"),
    ]


def _allclose(budget: Mapping[str, float]) -> str:
    return f"{budget['atol']:g} + {budget['rtol']:g} |x|" if "atol" in budget and "rtol" in budget else ""


def show_fault(fault: Fault, path: Path) -> None:
    """One fault: its kind, source line, thread and block."""
    where = f"{path}:{fault.source_line}" if fault.source_line is not None else str(path)
    out(f"{paint(fault.kind.words, 'red')} in {fault.kernel} at {where}")
    details = []
    if fault.block is not None:
        details.append(f"block {fault.block}")
    if fault.thread is not None:
        details.append(f"thread {fault.thread}")
    if fault.address is not None:
        details.append(f"address {fault.address:#x}")
    if details:
        out(f"  {'  '.join(details)}")
    out_words(f"  {plain(fault.message)}")
    if fault.source_line is not None and (line := _line_of(path, fault.source_line)):
        out(f"  {paint(f'{fault.source_line} |', 'dim')} {line}")


def _line_of(path: Path, number: int) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return plain(lines[number - 1].strip()) if 0 < number <= len(lines) else ""


def show_bench(evaluation: Evaluation, path: Path, *, headed: bool = True) -> None:
    """A row per case, marked measured or modelled, and the decision if there was a baseline."""
    if not evaluation.status.passed:
        if headed:
            show_check(evaluation, path)
        return
    environment = evaluation.environment
    if headed:
        out(f"{paint(evaluation.variant, 'cyan')}  {environment.device}  {environment.arch}  {environment.timing}")
    out()
    if environment.timing == "modelled":
        show_modelled(evaluation.bench)
    else:
        _measured_table(evaluation.bench)
    if evaluation.decision is not None:
        out()
        show_decision(evaluation.decision)


def show_modelled(cases: Sequence[CaseBench]) -> None:
    rows = []
    for case in cases:
        estimate = case.estimate
        assert estimate is not None
        sampled = estimate.blocks_run < estimate.blocks_total
        blocks = f"{estimate.blocks_run} of {estimate.blocks_total} blocks" if sampled else "all blocks"
        rows.append([case.name, microseconds(estimate.modelled_us), estimate.limiter, blocks])
    out_table(["case", ">modelled µs", "limited by", "executed"], rows)
    for case in cases:
        if case.is_launch_bound:
            out_note(f"{case.name} is launch-bound: the launch alone is {case.launch_share:.0%} of its time")
    first = cases[0].estimate if cases else None
    if first is not None:
        said = f"modelled for {first.chip} by model {first.model_version}, {first.calibration}; no hardware was timed"
        out_note(said)


def _measured_table(cases: Sequence[CaseBench]) -> None:
    rows = []
    for case in cases:
        warm, cold = case.warm, case.cold
        assert warm is not None
        rows.append(
            [
                case.name,
                microseconds(warm.p50_us),
                microseconds(warm.p90_us),
                microseconds(warm.p99_us),
                f"{microseconds(warm.mean_us)} ± {microseconds(warm.std_us)}" + (" unsteady" if warm.unsteady else ""),
                microseconds(cold.p50_us) if cold else "",
                str(warm.samples),
                f"{case.tflop_per_s:.2f}" if case.tflop_per_s is not None else "",
            ]
        )
    out_table(["case", ">measured p50 µs", ">p90", ">p99", ">mean ± sd", ">cold p50", ">samples", ">TFLOP/s"], rows)
    if any(case.warm is not None and case.warm.unsteady for case in cases):
        out(paint("unsteady: the standard deviation is more than a tenth of the mean", "yellow"))


def show_persisting(plain_cases: Sequence[CaseBench], persisting: Sequence[CaseBench]) -> None:
    """Warm times beside those with the inputs kept in L2; nothing if the latter were not requested."""
    if not persisting:
        return
    before = {case.name: case.warm for case in plain_cases}
    rows = []
    for case in persisting:
        without, kept = before.get(case.name), case.warm
        assert without is not None
        assert kept is not None
        ratio = f"{without.p50_us / kept.p50_us:.3f}x"
        rows.append([case.name, microseconds(without.p50_us), microseconds(kept.p50_us), ratio])
    out()
    out_table(["case", ">measured p50 µs", ">inputs kept in L2", ">faster"], rows)
    out_note("with a part of L2 reserved for the inputs; such a time is never recorded and decides nothing")


def show_decision(decision: Decision) -> None:
    words = [coloured(decision.verdict.value)]
    if decision.gain is not None:
        words.append(gain_text(decision.gain))
    out_words(f"{'  '.join(words)}: {plain(decision.reason)}")
    for remark in measurement_remarks(decision.evidence):
        out_note(remark)


def measurement_remarks(evidence: Evidence | None) -> list[str]:
    """Notes on the measurement: pairs dropped because of their clocks, throttling, other processes on the GPU."""
    if evidence is None:
        return []
    remarks = []
    if evidence.dropped_pairs:
        dropped = f"{evidence.dropped_pairs} pairs dropped because the clock moved between their halves"
        remarks.append(f"{dropped}, {evidence.pairs} used")
    if own := evidence.pairs_at_own_clocks:
        ran = f"{own} of {evidence.pairs} pairs ran at different clocks, steadily"
        remarks.append(f"{ran}: a gain must also show in cycles")
    clocks = evidence.clocks
    if clocks is None:
        return remarks
    if clocks.sm_mhz_median is not None:
        ends = f"{clocks.sm_mhz_min} to {clocks.sm_mhz_max}"
        remarks.append(f"SM clock {clocks.sm_mhz_median} MHz ({ends}) over {clocks.blocks} blocks")
    if clocks.throttle_reasons:
        remarks.append(f"clocks held back: {', '.join(clocks.throttle_reasons)}")
    if clocks.other_processes:
        remarks.append(f"{clocks.other_processes} other compute processes on the GPU while it was timed")
    return remarks


def gain_text(gain: Gain, *, interval: bool = True) -> str:
    """`1.27x`, with its interval if it was measured."""
    text = ratio(gain.ratio)
    if interval and gain.low is not None and gain.high is not None:
        text += f" [{ratio(gain.low)}, {ratio(gain.high)}]"
    return text


def show_compile(report: CompileReport, path: Path) -> None:
    """Resources per kernel and compiled-in axes, then the instruction mix, most frequent first."""
    out(f"{paint(report.variant, 'cyan')}  {coloured(report.status)}  {report.arch}  {path}")
    if report.kernels:
        out()
        out_table(
            ["kernel", "axes", ">registers", ">spilled bytes", ">stack", ">shared"],
            [_kernel_row(kernel) for kernel in report.kernels],
        )
        out()
        for kernel in report.kernels:
            ranked = sorted(kernel.sass.items(), key=lambda item: (-item[1], item[0]))
            shown = "  ".join(f"{name} {count}" for name, count in ranked[:10])
            out(f"{paint('instructions', 'dim')} {kernel.name}{_axes(kernel)}: {shown}")
    if report.warnings:
        out()
        out(f"{coloured(report.status)}: {plain(report.warnings[0])}")
        _show_excerpt(report)


def _show_excerpt(report: CompileReport) -> None:
    """The source line that the compiler complains of, and the caret below it."""
    for line in report.warnings[1:]:
        out(f"  {plain(line)}")


def _axes(kernel: KernelResources) -> str:
    return "".join(f" {name}={value}" for name, value in kernel.axes.items())


def _kernel_row(kernel: KernelResources) -> list[str]:
    stores, loads = kernel.spill_store_bytes, kernel.spill_load_bytes
    spilled = None if stores is None or loads is None else stores + loads
    numbers = (kernel.registers, spilled, kernel.stack_bytes, kernel.shared_bytes)
    return [kernel.name, _axes(kernel).strip(), *("" if value is None else str(value) for value in numbers)]


_WIDE = 48


def show_coverage(parts: Sequence[Coverage], text: str) -> None:
    """One row per condition with an outcome that no case exercised, by source line; a line may stand for several."""
    from evo.cli.outputs import compared

    source = text.splitlines()
    seen, of = (sum(counts) for counts in zip(*(part.outcomes() for part in parts), strict=True)) if parts else (0, 0)
    out()
    out(f"coverage: {seen} of {of} outcomes of conditions were exercised")
    rows: dict[tuple[str, ...], None] = {}  # each once
    for part in parts:
        for line, points in part.by_line().items():
            for point in points:
                if point.unexercised:
                    code = source[line - 1].strip() if 0 < line <= len(source) else ""
                    never = ", ".join(name.replace("_", " ") for name in point.unexercised)
                    what = never if point.reached else "never executed"
                    place = str(line) if line else "?"
                    rows[place, code[:_WIDE], point.kind.value, paint(what, "yellow"), compared(point) or ""] = None
    if rows:
        out_table([">line", "source", "condition", "not exercised", "last compared"], [list(row) for row in rows])
