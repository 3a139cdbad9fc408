"""`evo profile FILE`: static resources, exact counts by source line, and Nsight Compute's counters on a GPU."""

from __future__ import annotations

import pickle
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

from evo.cli.chips import HeadlineCase
from evo.cli.command_context import FileSubject, read_subject, session_of
from evo.cli.evaluation_view import coloured, show_fault
from evo.cli.options import DEFAULT_ARCH, ArchWord, AsJson, DeviceWord, KernelFile, Seed, TaskWord, choose_device
from evo.cli.stage_line import stage
from evo.cli.terminal import out, out_json, out_table, paint, plain, say
from evo.errors import UsageError

if TYPE_CHECKING:
    from evo.cli.profile_output import Profile
    from evo.device import Program, RunRequest, RunResult
    from evo.evaluate.pipeline import EvaluationSession
    from evo.evaluate.profile import ExpectedMetric, HotLine, KernelProfile, NcuCounters, Unavailable
    from evo.spec.task import Case

FAILED = 1
_COUNT_LIMIT_S = 300.0
_NCU_LIMIT_S = 300.0
_BUDGET = 10**12  # warp instructions: the time limit ends an endless loop

_SHOWN_LINES = 20
_SHOWN_REMARKS = 12
_SHOWN_SASS = 12
_WORTH = 0.001
# What a row of the table of lines says first, where the line has any of it.
_COLUMNS = ("shared_wavefronts", "global_sectors", "local_requests", "mma_instructions", "atomic_lanes", "ex2")


def profile(
    context: Context,
    file: KernelFile,
    task: TaskWord = None,
    case: HeadlineCase = None,
    device: DeviceWord = "auto",
    arch: ArchWord = DEFAULT_ARCH,
    kernel: Annotated[str | None, Option("--kernel", metavar="NAME", help="Only this kernel of several.")] = None,
    count: Annotated[
        bool, Option("--count/--no-count", help="Count every access on the simulator, also for a GPU.")
    ] = True,
    seed: Seed = 0,
    json: AsJson = False,
) -> int:
    """Profile a variant: resources and occupancy, then exact counts by source line, hottest first.

    The simulator counts shared wavefronts and bank conflicts, sectors per request, divergence, atomics,
    tensor-core work. On a GPU, Nsight Compute's counters are shown too, if the driver permits. Counts are compared
    with the task's work formulas. The order of lines is modelled. Nothing is timed or checked for
    correctness; use `evo check` and `evo bench` for that.
    """
    subject = read_subject(session_of(context), file, task)
    chosen = subject.task.case(case if case is not None else subject.task.headline)
    names = [line.kernel for line in subject.variant.launches]
    if kernel is not None and kernel not in names:
        raise UsageError(f"{subject.path} does not launch a kernel {kernel!r}", hint=f"one of {', '.join(names)}")
    from evo.evaluate.pipeline import EvaluationSession

    with EvaluationSession(choose_device(device), arch=arch, on_stage=stage) as bench_session:
        say(f"profiling {subject.path} at case {chosen.name} on {bench_session.device}")
        try:
            found = _profiled(subject, chosen, bench_session, count=count, seed=seed)
        finally:
            stage("")
    if kernel is not None:
        found.kernels = tuple(row for row in found.kernels if row.name == kernel)
        found.lines = tuple(line for line in found.lines if line.kernel == kernel)
    if json:
        out_json(found.to_json())
    else:
        _show(found)
    return 0 if found.status == "profiled" else FAILED


def _profiled(subject: FileSubject, case: Case, bench_session: EvaluationSession, *, count: bool, seed: int) -> Profile:
    from evo.cli.profile_output import Profile
    from evo.device import RunRequest
    from evo.evaluate.prepare import PrepareFailure, prepare
    from evo.evaluate.profile import NcuCounters, compare_measured, kernel_profiles
    from evo.spec.metrics import added

    task = subject.task
    found = Profile(
        subject=subject,
        at=case,
        case=case.name,
        device=str(bench_session.device),
        chip=bench_session.chip_slug,
        arch=bench_session.arch,
    )
    stage("compile")
    prepared = prepare(
        task,
        subject.variant.text,
        chip=bench_session.chip,
        arch=bench_session.arch,
        path=str(subject.path),
        cases=[case],
    )
    if isinstance(prepared, PrepareFailure):
        found.status, found.reason = prepared.status.value, prepared.reason
        return found
    program = prepared.programs[case.name]
    found.kernels = kernel_profiles(program, bench_session.chip, None)
    inputs = bench_session.reference(task).inputs(case, seed)
    request = RunRequest(program=program, inputs=inputs, check_races=False, budget=_BUDGET, lines=True)
    totals: dict[str, int] | None = None
    if count:
        result = _counted(found, bench_session, request)
        if found.reason is not None:
            return found
        if result is not None:
            totals = added(launch.totals for launch in result.launches)
            _add_counts(found, bench_session, program, result, totals)
    else:
        found.not_counted = "--no-count"
    if bench_session.device.kind == "gpu":
        measured = _measured(request, bench_session.device.which)
        if isinstance(measured, NcuCounters):
            found.measured = measured
            found.expected += compare_measured(task, case, totals, measured.sums())
        else:
            found.not_measured = measured.reason
            say(f"profile: unavailable ({measured.reason})")
    return found


def _counted(found: Profile, bench_session: EvaluationSession, request: RunRequest) -> RunResult | None:
    """The simulator's run of the whole grid; None, with words in `found`, where it did not get through.

    On a GPU a case may be too large for the simulator, and the rest of the profile is still worth having.
    """
    from evo.errors import Crashed, TimedOut
    from evo.evaluate.gate import fault_reason

    stage(f"count {found.case}")
    try:
        result = bench_session.checker.run(request, time_limit_s=_COUNT_LIMIT_S)
    except TimedOut as late:
        words = f"still counting after {late.seconds:g} s: choose a smaller --case, or --no-count"
        if bench_session.device.kind == "gpu":
            found.not_counted = words
        else:
            found.status, found.reason = "timed_out", words
        return None
    except Crashed as crash:
        found.status, found.reason = "crashed", str(crash)
        return None
    if result.faults:
        found.faults = result.faults
        found.status = result.faults[0].kind.status.value
        found.reason = fault_reason(result.faults[0])
    return result


def _add_counts(
    found: Profile, bench_session: EvaluationSession, program: Program, result: RunResult, totals: dict[str, int]
) -> None:
    from evo.evaluate.profile import compare_counted, hot_lines, kernel_profiles

    found.counted = True
    found.kernels = kernel_profiles(program, bench_session.chip, result.launches)
    found.lines = hot_lines(found.kernels, result.launches, found.subject.variant.text, bench_session.chip)
    found.expected = compare_counted(found.subject.task, found.at, totals, len(result.launches))


def _measured(request: RunRequest, index: str) -> NcuCounters | Unavailable:
    """Nsight Compute around a process that launches the sequence once."""
    from evo.evaluate.profile import measure
    from evo.spec.child_process import child_environment

    stage("nsight compute")
    with tempfile.TemporaryDirectory(prefix="evo-profile-") as folder:
        path = Path(folder) / "request"
        path.write_bytes(pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL))
        target: Sequence[str] = [sys.executable, "-P", "-m", "evo.device.ncu_target", str(path), index]
        return measure(target, child_environment(), time_limit_s=_NCU_LIMIT_S)


def _show(found: Profile) -> None:
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
