"""The context of `inversion`: from the hardware backwards. Limits, what follows from them, and what binds now.

Floors are by datasheet or calibration, tiles are modelled, counts are exact by the simulator: each says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from evo.analysis.roofline import CaseLimits, limits
from evo.analysis.tiles import derive
from evo.analysis.tiles.derivation import knob_text
from evo.errors import SyntaxInvalid, TaskInvalid
from evo.evaluate.profile import KernelProfile
from evo.evaluate.profile.counting import counted
from evo.evaluate.session import EvaluationSession
from evo.operators.llm.endpoint import data
from evo.spec.chips import Chip
from evo.spec.task import Case, Task
from evo.spec.variant import Variant

COUNT_LIMIT_S = 60.0
_LINES = 8
_LEAST_SHARE = 0.01  # of a pipe's clocks: lines below it tell nothing


def limits_of(task: Task, case: Case, chip: Chip) -> CaseLimits | None:
    """The limits of one case; None if the task states no work."""
    try:
        return limits(task, case, chip)
    except SyntaxInvalid:
        return None


def target_share(task: Task, chip: Chip, case: str, time_us: float | None) -> float | None:
    """How much of its target a case has reached: target over time; the floor stands in if no target is stated."""
    found = limits_of(task, task.case(case), chip)
    if found is None or not time_us:
        return None
    target = found.target_us or found.floor_us
    return target / time_us if target else None


def hardware_context(task: Task, parent: Variant, bench: EvaluationSession, time_us: float | None) -> list[str]:
    """Limits, derived configurations, counters of the parent and the binding limit, at the headline case."""
    case, chip = task.case(task.headline), bench.chip
    found = limits_of(task, case, chip)
    parts: list[str] = []
    if found is not None:
        parts += [
            f"Limits of case {case.name} on {chip.name}:",
            data("limits", "\n".join(_limits(found, time_us, bench.modelled))),
        ]
    derived = _derived(task, chip, case)
    if derived:
        parts += [
            "Tiles that are legal and free of bank conflicts, in the model's order, for a kernel written for such knobs"
            " (this one need not have them):"
        ]
        parts += [data("derived", "\n".join(derived))]
    counted = _counted(task, parent, bench, case)
    if counted:
        parts += ["What the kernel above does, counted exactly on the simulator:", data("counters", "\n".join(counted))]
    if parts:
        parts.append(
            "The floors hold for every kernel; what decides this one is the largest term of its times above. Choose the"
            " one change that takes most off that term at the scored cases."
        )
    return parts


def _limits(found: CaseLimits, time_us: float | None, modelled: bool) -> list[str]:
    lines = [
        (f"{found.flop:,.0f} FLOP, " if found.flop is not None else "")
        + f"{found.bytes_compulsory:,} compulsory bytes"
        + (f", {found.intensity_flop_per_byte:.4g} FLOP per byte" if found.intensity_flop_per_byte is not None else "")
        + (f"; ridge at {found.ridge_flop_per_byte:.0f}" if found.ridge_flop_per_byte else "")
    ]
    lines += [
        f"floor {name}: {us:,.4g} us" + (" (estimate, binds nothing)" if name in found.estimated else "")
        for name, us in found.floors_us.items()
    ]
    launch, through_l2 = found.floors_us.get("launch"), found.floors_us.get("l2")
    if modelled and launch is not None:
        work = max(found.floor_us, through_l2 or 0.0)
        lines.append(f"least by the model: launch {launch:.3g} us and {work:.3g} us of work; no change gets below that")
    if time_us and found.floor_us:
        lines.append(f"the kernel takes {time_us:,.1f} us {'modelled' if modelled else 'measured'}")
    return lines


def _derived(task: Task, chip: Chip, case: Case) -> list[str]:
    try:
        found = derive(task, chip, case)
    except TaskInvalid:
        return []
    lines = []
    for one in found.candidates[:3]:
        layouts = "; ".join(f"{part.name}: {part.layout}" for part in one.placed)
        lines.append(
            f"{knob_text(one.tile)}: {one.threads} threads, {one.blocks:,} blocks, {one.shared_bytes:,} B shared,"
            f" {one.occupancy:.0%} occupancy, bound by {one.binds}" + (f"; {layouts}" if layouts else "")
        )
    return lines


def _counted(task: Task, parent: Variant, bench: EvaluationSession, case: Case) -> list[str]:
    for at in (case, *task.check[:1]):  # a bench case may be too large to be counted in time
        found = counted(task, parent.text, bench, at, limit_s=COUNT_LIMIT_S)
        if not found.kernels:
            continue
        lines = [f"case {at.name}"]
        for kernel in found.kernels:
            lines += _kernel(kernel)
        for line in found.lines[:_LINES]:
            if not line.source.strip() or line.share < _LEAST_SHARE:
                continue
            remarks = "; ".join(line.remarks)
            lines.append(f"line {line.line}, {line.share:.0%} of {line.pipe}: {line.source.strip()[:100]}  {remarks}")
        return lines
    return []


def _kernel(row: KernelProfile) -> Sequence[str]:
    fits = row.occupancy
    lines = [
        f"kernel {row.name}: {row.registers} registers, {row.spill_bytes} B spilled, {row.shared_bytes} B shared,"
        f" {fits.warps_per_sm} of {fits.warps_per_sm_limit} warps an SM, limited by {' and '.join(fits.limited_by)}"
    ]
    if row.pipes is not None:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in row.pipes.share.items() if share)
        lines.append(f"  busiest pipe: {row.pipes.limiter} (modelled clocks, as shares of it: {shares})")
    if row.metrics is not None:
        lines.append("  " + ", ".join(f"{name} {_count(value)}" for name, value in row.metrics.items() if value))
    return lines


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
