"""What the reading commands print for people: evaluations, compile reports, counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from evo.cli.terminal import microseconds, out, out_table, paint, plain, ratio, verdict_colour

if TYPE_CHECKING:
    from evo.results import CaseBench, CaseCheck, Decision, Evaluation, Fault, Json


def coloured(word: str) -> str:
    return paint(word, verdict_colour(word))


def show_check(evaluation: Evaluation, path: Path) -> None:
    """The gate's verdict, a row per case, and each fault with the source line it happened on."""
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
    if check is not None and check.sanitizer:
        out()
        out(f"compute-sanitizer: {check.sanitizer['state']}" + _told(check.sanitizer))
    if check is not None and check.unseen:
        out()
        out(f"{paint('not looked at', 'yellow')}: {plain(check.unseen)}")
    if evaluation.reason:
        out()
        out(f"{paint(evaluation.status.value, 'red')}: {plain(evaluation.reason)}")
    for fault in check.faults if check is not None else ():
        out()
        show_fault(fault, path)


def _told(sanitizer: Mapping[str, Json]) -> str:
    tools, reason = sanitizer.get("tools"), sanitizer.get("reason")
    by = f" ({', '.join(map(str, tools))})" if isinstance(tools, list) else ""
    return by + (f": {plain(str(reason))}" if reason and sanitizer["state"] != "found" else "")


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
    """One fault: what, where in the source, and which thread of which block."""
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
    out(f"  {plain(fault.message)}")
    if fault.source_line is not None and (line := _line_of(path, fault.source_line)):
        out(f"  {paint(f'{fault.source_line} |', 'dim')} {line}")


def _line_of(path: Path, number: int) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return plain(lines[number - 1].strip()) if 0 < number <= len(lines) else ""


def show_bench(evaluation: Evaluation, path: Path, *, headed: bool = True) -> None:
    """A row per case, measured or modelled in words, and the decision where there was something to compare with."""
    if not evaluation.status.passed:
        if headed:
            show_check(evaluation, path)
        return
    environment = evaluation.environment
    if headed:
        out(f"{paint(evaluation.variant, 'cyan')}  {environment.device}  {environment.arch}  {environment.timing}")
    out()
    if environment.timing == "modelled":
        _modelled_table(evaluation.bench)
    else:
        _measured_table(evaluation.bench)
    if evaluation.decision is not None:
        out()
        show_decision(evaluation.decision)


def _modelled_table(cases: Sequence[CaseBench]) -> None:
    rows = []
    for case in cases:
        estimate = case.estimate
        assert estimate is not None
        sampled = estimate.blocks_run < estimate.blocks_total
        blocks = f"{estimate.blocks_run} of {estimate.blocks_total} blocks" if sampled else "all blocks"
        rows.append([case.name, microseconds(estimate.modelled_us), estimate.limiter, blocks])
    out_table(["case", ">modelled µs", "limited by", "executed"], rows)
    first = cases[0].estimate if cases else None
    if first is not None:
        said = f"modelled for {first.chip} by model {first.model_version}, {first.calibration}; no hardware was timed"
        out(paint(said, "dim"))


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
    """Warm times beside those with the inputs kept in L2; nothing where the latter were not asked for."""
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
    out(paint("with a part of L2 set aside for the inputs; no such time is ever recorded or decided by", "dim"))


def show_decision(decision: Decision) -> None:
    words = [coloured(decision.verdict.value)]
    if decision.gain is not None:
        words.append(gain_text(decision.gain.to_json()))
    out(f"{'  '.join(words)}: {plain(decision.reason)}")
    for remark in measurement_remarks(decision.evidence):
        out(paint(remark, "dim"))


def measurement_remarks(evidence: Mapping[str, Json]) -> list[str]:
    """What a reader should know of how it was measured: pairs dropped for their clocks, throttling, company."""
    remarks = []
    dropped, pairs = evidence.get("dropped_pairs"), evidence.get("pairs")
    if dropped:
        remarks.append(f"{dropped} pairs dropped because the clock moved between their halves, {pairs} used")
    if own := evidence.get("pairs_at_own_clocks"):
        remarks.append(
            f"{own} of {pairs} pairs ran at different clocks, steadily: a gain has to show in cycles as well"
        )
    clocks = evidence.get("clocks")
    if not isinstance(clocks, dict):
        return remarks
    if "sm_mhz_median" in clocks:
        low, middle, high = (clocks.get(f"sm_mhz_{end}") for end in ("min", "median", "max"))
        remarks.append(f"SM clock {middle} MHz ({low} to {high}) over {clocks.get('blocks')} blocks")
    if reasons := clocks.get("throttle_reasons"):
        remarks.append(f"clocks held back: {', '.join(map(str, reasons)) if isinstance(reasons, list) else reasons}")
    if others := clocks.get("other_processes"):
        remarks.append(f"{others} other compute processes on the GPU while it was timed")
    return remarks


def case_us(case: Json | Mapping[str, Json]) -> float | None:
    """The time that stands for one case's JSON: modelled, or the median when warm; None where there is none."""
    if not isinstance(case, Mapping):
        return None
    warm = case.get("warm")
    value = case.get("modelled_us", (warm if isinstance(warm, dict) else case).get("p50_us"))
    return float(value) if isinstance(value, (int, float)) else None


def gain_text(gain: Mapping[str, Json], *, interval: bool = True) -> str:
    """`1.27x`, with its interval where it was measured."""
    text = ratio(float(cast(float, gain["ratio"])))
    low, high = gain.get("low"), gain.get("high")
    if interval and isinstance(low, (int, float)) and isinstance(high, (int, float)):
        text += f" [{ratio(low)}, {ratio(high)}]"
    return text


def show_compile(report: Mapping[str, Json], path: Path) -> None:
    """Resources per kernel and compiled-in axes, then the instruction mix, most frequent first."""
    status = str(report["status"])
    out(f"{paint(str(report['variant']), 'cyan')}  {coloured(status)}  {report['arch']}  {path}")
    kernels = cast("list[dict[str, Json]]", report["kernels"])
    if kernels:
        out()
        out_table(
            ["kernel", "axes", ">registers", ">spilled bytes", ">stack", ">shared"],
            [_kernel_row(kernel) for kernel in kernels],
        )
        out()
        for kernel in kernels:
            mix = cast(dict[str, int], kernel.get("sass") or {})
            ranked = sorted(mix.items(), key=lambda item: (-item[1], item[0]))
            shown = "  ".join(f"{name} {count}" for name, count in ranked[:10])
            out(f"{paint('instructions', 'dim')} {kernel['name']}{_axes(kernel)}: {shown}")
    for warning in cast(list[str], report["warnings"]):
        out()
        out(f"{coloured(status)}: {plain(warning)}")


def _axes(kernel: Mapping[str, Json]) -> str:
    axes = cast("dict[str, Json]", kernel.get("axes") or {})
    return " " + " ".join(f"{name}={value}" for name, value in axes.items()) if axes else ""


def _kernel_row(kernel: Mapping[str, Json]) -> list[str]:
    def number(name: str) -> int | None:
        value = kernel.get(name)
        return int(value) if isinstance(value, (int, float)) else None

    stores, loads = number("spill_store_bytes"), number("spill_load_bytes")
    spilled = "" if stores is None or loads is None else str(stores + loads)
    rest = ["" if value is None else str(value) for value in (number("stack_bytes"), number("shared_bytes"))]
    registers = number("registers")
    return [str(kernel["name"]), _axes(kernel).strip(), "" if registers is None else str(registers), spilled, *rest]
