"""What `evo profile` prints for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evo.cli.terminal import out, out_table, paint, plain
from evo.cli.views import coloured, show_fault

if TYPE_CHECKING:
    from evo.cli.profile_output import Profile
    from evo.evaluate.profile import ExpectedMetric, HotLine, KernelProfile, NcuCounters

_SHOWN_LINES = 20
_SHOWN_REMARKS = 12
_SHOWN_SASS = 12
_WORTH = 0.001
# What a row of the table of lines says first, where the line has any of it.
_COLUMNS = ("shared_wavefronts", "global_sectors", "local_requests", "mma_instructions", "atomic_lanes", "ex2")


def show_profile(found: Profile) -> None:
    """Resources, totals, hot lines, what was measured, and all of it beside its expectation."""
    words = [found.subject.task.name, found.case, found.device, found.arch, str(found.subject.path)]
    out(f"{paint(found.subject.variant.id, 'cyan')}  {coloured(found.status)}  {'  '.join(words)}")
    if found.reason:
        out()
        out(f"{paint(found.status, 'red')}: {plain(found.reason)}")
    for fault in found.faults:
        out()
        show_fault(fault, found.subject.path)
    if found.kernels:
        out()
        _show_kernels(found.kernels)
    if found.counted:
        _show_totals(found.case, found.kernels)
        _show_lines(found.lines)
    if found.measured is not None:
        _show_measured(found.measured)
    if found.expected:
        out()
        _show_expected(found.expected)
    if found.profile.startswith("unavailable") and not found.reason:
        out()
        out(f"{paint('profile:', 'yellow')} {plain(found.profile)}")


def _show_kernels(kernels: Sequence[KernelProfile]) -> None:
    head = ["kernel", ">launches", ">grid", ">block", ">registers", ">spilled", ">local", ">shared", "resident per SM"]
    rows = []
    for row in kernels:
        fits = row.occupancy
        resident = (
            f"{fits.blocks_per_sm} blocks, {fits.warps_per_sm} of {fits.warps_per_sm_limit} warps: "
            f"{' and '.join(fits.limited_by)}"
        )
        rows.append(
            [
                row.name,
                str(row.launches),
                _size(row.grid),
                _size(row.block),
                str(row.registers),
                f"{row.spill_bytes:,}",
                f"{row.stack_bytes:,}",
                f"{row.shared_bytes:,}",
                resident,
            ]
        )
    out_table(head, rows)
    for row in kernels:
        ranked = sorted(row.sass.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN_SASS]
        if ranked:
            out(f"{paint('SASS', 'dim')} {row.name}: {'  '.join(f'{name} {count}' for name, count in ranked)}")


def _size(sizes: tuple[int, ...]) -> str:
    used = list(sizes)
    while len(used) > 1 and used[-1] == 1:
        used.pop()
    return " x ".join(map(str, used))


def _show_totals(case: str, kernels: Sequence[KernelProfile]) -> None:
    from evo.spec.metrics import METRICS, counted_metrics, short

    values = {row.name: counted_metrics(row.counters or {}) for row in kernels}
    shown = [name for name in METRICS if any(values[row.name].get(name) for row in kernels)]
    out()
    head = [f"counted at {case}, exact", *(f">{row.name}" for row in kernels)]
    out_table(
        [*head, "is"],
        [
            [
                name,
                *(short(values[row.name][name]) if name in values[row.name] else "" for row in kernels),
                METRICS[name].meaning,
            ]
            for name in shown
        ],
        flexible=len(head),
    )
    for row in kernels:
        if row.pipes is not None:
            busy = sorted(row.pipes.share.items(), key=lambda item: -item[1])
            parts = "  ".join(f"{name} {100 * share:.0f} %" for name, share in busy if share >= 0.01)
            out(f"{paint('pipes, modelled', 'dim')} {row.name}: {parts}")


def _show_lines(lines: Sequence[HotLine]) -> None:
    """The hottest lines as a table, then what is lost where, in words."""
    if not lines:
        return
    several = len({line.kernel for line in lines}) > 1
    out()
    out_table(
        [
            ">line",
            *(["kernel"] if several else []),
            f">{lines[0].pipe}" if not several else ">limiter",
            "else",
            "events",
            "source",
        ],
        [
            [
                str(line.line) if line.line else "?",
                *([line.kernel] if several else []),
                f"{100 * line.share:.1f} %",
                _elsewhere(line),
                _events(line.counters),
                plain(line.source),
            ]
            for line in lines[:_SHOWN_LINES]
        ],
        flexible=5 if several else 4,
    )
    if len(lines) > _SHOWN_LINES:
        out(paint(f"and {len(lines) - _SHOWN_LINES} cooler lines; --json has all", "dim"))
    said = [(line.kernel, remark) for line in lines for remark in line.remarks]
    if said:
        out()
    for kernel, remark in said[:_SHOWN_REMARKS]:
        out(f"{f'{kernel}: ' if several else ''}{remark}")
    if len(said) > _SHOWN_REMARKS:
        out(paint(f"and {len(said) - _SHOWN_REMARKS} remarks on cooler lines; --json has all", "dim"))


def _elsewhere(line: HotLine) -> str:
    """The other pipe that a line keeps busy, against the limiter's clocks."""
    pipe, share = line.busiest.pipe, line.busiest.share
    return f"{pipe} {100 * share:.1f} %" if pipe != line.pipe and share >= _WORTH else ""


def _events(counters: dict[str, int]) -> str:
    named = [name for name in _COLUMNS if counters.get(name)][:3]
    words = [f"{name.replace('_', ' ')} {counters[name]:,}" for name in named]
    return ", ".join(words or [f"warp instructions {counters.get('warp_instructions', 0):,}"])


def _show_measured(measured: NcuCounters) -> None:
    from evo.spec.metrics import short

    names = list(dict.fromkeys(name for launch in measured.launches for name in launch.metrics))
    out()
    head = ["measured by ncu, cold caches", *(f">{launch.kernel}" for launch in measured.launches), "metric"]
    rows = []
    for name in names:
        by_launch = [launch.metrics for launch in measured.launches]
        cells = [short(values[name].value) if name in values else "" for values in by_launch]
        metric = next(values[name].metric for values in by_launch if name in values)
        rows.append([name, *cells, metric])
    out_table(head, rows, flexible=len(head) - 1)
    if measured.missing:
        out(paint(f"not counted on this chip: {', '.join(measured.missing)}", "dim"))


def _show_expected(rows: Sequence[ExpectedMetric]) -> None:
    out_table(
        ["expected", ">value", "from", ">expected", ">ratio", "because"],
        [
            [
                row.metric,
                f"{row.value:,.10g}",
                row.source,
                f"{row.expected:,.10g}",
                "exact" if row.exact else f"{row.value / row.expected:.3f}x" if row.expected else "",
                row.because,
            ]
            for row in rows
        ],
    )
