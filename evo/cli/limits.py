"""`evo limits`: lower bounds on the time, and the measured times as a share of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

from evo.cli.chips import CaseWord, GpuWord, choose_cases, choose_chip
from evo.cli.command_context import choose_task, session_of
from evo.cli.options import AsJson, TaskName
from evo.cli.terminal import microseconds, out, out_json, out_note, out_table, out_words, paint, say
from evo.errors import HarnessFault, UsageError

if TYPE_CHECKING:
    from evo.analysis.calibration import Calibration
    from evo.analysis.roofline import CaseLimits
    from evo.cli.analysis_outputs import LimitsOutput, MeasuredTime
    from evo.cli.pages import RooflineDot
    from evo.spec.chips import Chip
    from evo.spec.task import Task

_FLOORS = {
    "tensor": "tensor", "mma_sync": "mma.sync", "fp64": "fp64", "fp32": "fp32", "sfu": "exp", "dram_cold": "DRAM cold",
    "dram_warm": "DRAM warm", "launch": "launch",
}  # fmt: skip
_SM_PIPES = ("tensor", "fp32", "fp64", "sfu", "shared")
_WORTH_SHOWING = 3.0  # times the champion's time; slower rivals are not shown


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCase:
    """A measured time of one case: of a champion or of a rival. clock_mhz: the SM clock while it was measured."""

    what: str
    p50_us: float
    cold_us: float | None = None
    clock_mhz: float | None = None

    def beside(self, limits: CaseLimits, chip: Chip) -> MeasuredTime:
        """The time beside the case's floor."""
        from evo.cli.analysis_outputs import MeasuredTime

        clock = self.clock_mhz
        scaled = scaled_floor(limits, chip, clock) if clock is not None else None
        return MeasuredTime(
            name=self.what,
            p50_us=self.p50_us,
            cold_p50_us=self.cold_us,
            tflop_per_s=limits.flop / self.p50_us * 1e-6 if limits.flop else None,
            floor_fraction=limits.floor_us / self.p50_us if limits.floor_us else None,
            sm_clock_mhz=clock,
            scaled_floor_us=scaled,
            scaled_floor_fraction=scaled / self.p50_us if scaled is not None else None,
        )


def limits(
    context: Context,
    task: TaskName = None,
    gpu: GpuWord = None,
    case: CaseWord = None,
    efficiency: Annotated[
        float | None,
        Option("--efficiency", metavar="SHARE", help="Set targets at this share of the floor's speed, e.g. 0.6."),
    ] = None,
    plot: Annotated[Path | None, Option("--plot", metavar="FILE.svg", help="Also draw the roofline.")] = None,
    json: AsJson = False,
) -> int:
    """Show lower bounds on the time: work, traffic, the floor of each resource, and the measured times beside them."""
    from evo.analysis.calibration import latest_rates
    from evo.analysis.roofline import limits as limits_of

    if efficiency is not None and not 0 < efficiency <= 1:
        hint = "a share above 0 and at most 1: above 1 the target would be below the floor"
        raise UsageError(f"--efficiency {efficiency:g} is out of range", hint=hint)
    if plot is not None and plot.suffix.lower() != ".svg":
        raise UsageError(f"--plot {plot}: only SVG is written", hint="name a file that ends in .svg")
    root = session_of(context).root()
    subject = choose_task(root, task)
    chip = choose_chip(gpu)
    rates = latest_rates(chip.slug)
    cases = choose_cases(subject, case)
    found = [
        limits_of(subject, one, chip, measured=rates.rates() if rates else None, efficiency=efficiency) for one in cases
    ]
    taken = measured_times(root, subject, chip)
    if plot is not None:
        _draw(plot, subject, chip, found, taken, root)
    if json:
        out_json(limits_output(subject, chip, found, taken, rates).to_json())
    else:
        show(subject, chip, found, taken, rates)
    return 0


def limits_output(
    task: Task, chip: Chip, found: Sequence[CaseLimits], taken: dict[str, list[MeasuredCase]], rates: Calibration | None
) -> LimitsOutput:
    from evo.cli.analysis_outputs import LimitedCase, LimitsOutput
    from evo.results.codec import copied

    def case(one: CaseLimits) -> LimitedCase:
        return copied(LimitedCase, one, measured=tuple(time.beside(one, chip) for time in taken.get(one.name, [])))

    clock_hz = chip.rates.get("tensor_clock_hz", chip.clock_hz)
    cases = tuple(case(one) for one in found)
    return copied(LimitsOutput, chip, task=task.name, chip=chip.slug, cases=cases, clock_hz=clock_hz, calibration=rates)


def measured_times(root: Path, task: Task, chip: Chip) -> dict[str, list[MeasuredCase]]:
    """Measured champions of this chip and the rivals of `evo baseline`, by case."""
    from evo.analysis.calibration import latest_baseline
    from evo.records.leaderboard import entries, load

    found: dict[str, list[MeasuredCase]] = {}
    clocks: dict[str, float] | None = None
    for entry in entries(load(root), task=task.name, timing="measured"):
        if entry.chip != chip.slug:
            continue
        if clocks is None:
            clocks = _clocks(root, task.name)
        for name, case in entry.cases.items():
            champion = MeasuredCase(
                what=f"champion {entry.variant} {entry.built_for}",
                p50_us=case.time_us,
                cold_us=case.cold.p50_us if case.cold is not None else None,
                clock_mhz=clocks.get(entry.variant),
            )
            found.setdefault(name, []).append(champion)
            if (against := case.baseline) is not None:
                found[name] += [
                    MeasuredCase(what=f"rival {rival}, in the same run", p50_us=rival_us)
                    for rival, rival_us in sorted(
                        {against.name: against.p50_us, **against.others}.items(), key=lambda item: item[1]
                    )
                    if rival == against.name or rival_us <= _WORTH_SHOWING * case.time_us
                ]
    baseline = latest_baseline(task.name, chip.slug)
    values = baseline.values if baseline is not None else {}
    for name, rivals in values.items():
        found.setdefault(name, []).extend(
            MeasuredCase(what=f"rival {rival}", p50_us=timed.warm.p50_us) for rival, timed in rivals.items()
        )
    return found


def _clocks(root: Path, task: str) -> dict[str, float]:
    """Median SM clock of each variant's last measurement, in MHz, if its record has one."""
    from evo.records.trials import load_records

    found: dict[str, float] = {}
    for record in load_records(root, task):
        evidence = record.evidence
        clocks = evidence.clocks if evidence is not None else None
        if clocks is not None and clocks.sm_mhz_median is not None:
            found[record.variant] = float(clocks.sm_mhz_median)
    return found


def scaled_floor(limits: CaseLimits, chip: Chip, clock_mhz: float) -> float | None:
    """The warm floor at the clock of a measurement; None if it does not depend on the SM clock."""
    if limits.limiter not in _SM_PIPES:
        return None
    return limits.floor_us * chip.rates.get("tensor_clock_hz", chip.clock_hz) / (clock_mhz * 1e6)


def show(
    task: Task, chip: Chip, found: Sequence[CaseLimits], taken: dict[str, list[MeasuredCase]], rates: Calibration | None
) -> None:
    """Four tables: work, floors, tiles, measured times."""
    out_words(f"{paint(task.name, 'bold')} on {chip.name} ({chip.slug}): {', '.join(_peaks(chip))}")
    out()
    _show_work(found)
    out()
    _show_floors(found)
    if any(one.tiles for one in found):
        out()
        _show_tiles(found)
    if rates is not None:
        out()
        _show_calibrated(found, rates)
    out()
    _show_measured(task, chip, found, taken)
    estimated = sorted({name for one in found for name in one.estimated})
    if estimated:
        out()
        said = f"~ rests on an estimate without source or measurement ({', '.join(estimated)}): it binds"
        out_note(f"{said} nothing but `best`")


def _peaks(chip: Chip) -> list[str]:
    clock = chip.rates.get("tensor_clock_hz", chip.clock_hz)
    words = [f"{chip.sms} SMs at {clock / 1e9:.2f} GHz"]
    if peak := chip.peak_tensor_flop_per_s:
        words.append(f"{peak / 1e12:.2f} TFLOP/s dense fp16 with fp32 accumulate")
    if dram := chip.rate("dram_bytes_per_s"):
        words.append(f"{dram / 1e9:,.1f} GB/s DRAM")
    return [*words, f"{chip.l2_bytes / 2**20:g} MB L2"]


def _show_work(found: Sequence[CaseLimits]) -> None:
    head = ["case", ">FLOP", ">MAC", ">exp", ">bytes compulsory", ">materialised", ">FLOP/B", ">ridge"]
    out_table(head, [[
        one.name, _count(one.flop), _count(one.mac), _count(one.exp), _count(one.bytes_compulsory),
        _count(one.bytes_materialised), _short(one.intensity_flop_per_byte),
        f"{one.ridge_flop_per_byte:.0f}" if one.ridge_flop_per_byte else "",
    ] for one in found])  # fmt: skip
    if all(one.flop is None for one in found):
        out_note("the task states no FLOP (`work.flop` in task.yaml): floors come from the bytes alone")


def _show_floors(found: Sequence[CaseLimits]) -> None:
    shown = [name for name in _FLOORS if any(name in one.floors_us for one in found)]
    head = [
        "floors, µs",
        *(f">{_FLOORS[name]}" for name in shown),
        "binds warm",
        "binds cold",
        ">best",
        "bound by",
        ">target",
        ">cold",
        "which is",
    ]
    rows = []
    for one in found:
        cells = [_marked(one, one.floors_us, name) for name in shown]
        target = microseconds(one.target_us)
        cold = microseconds(one.target_cold_us)
        best = [microseconds(one.best_floor_us), _best_word(one)] if one.best_floor_us else ["", ""]
        rows.append([one.name, *cells, _word(one.limiter), _word(one.limiter_cold), *best, target, cold, one.target])
    out_table(head, rows)
    out_note("best: by the best rate known of each resource, its bytes through L2 included; ~ is an estimate")


def _show_tiles(found: Sequence[CaseLimits]) -> None:
    names = list(found[0].tiles[0].tile) if found[0].tiles else []
    head = ["tiles", *(f">{name}" for name in names), ">blocks", ">busy", ">L2 to SM bytes", ">L2 µs", ">shared bytes"]
    head += [">shared µs", ">quantum µs"]
    rows = []
    for one in found:
        for tile in one.tiles:
            rows.append([
                one.name, *(str(tile.tile[name]) for name in names), _count(tile.blocks),
                f"{tile.busy:.1%}" if tile.busy else "", _count(tile.bytes_l2), _marked(one, tile.floors_us, "l2"),
                _count(tile.bytes_shared), _marked(one, tile.floors_us, "shared"),
                _marked(one, tile.floors_us, "wave_quantum"),
            ])  # fmt: skip
    out_table(head, rows)


def _show_calibrated(found: Sequence[CaseLimits], rates: Calibration) -> None:
    shown = [*(name for name in _FLOORS), "l2", "shared", "wave_quantum"]
    shown = [name for name in shown if any(name in one.calibrated_floors_us for one in found)]
    head = ["by measured rates, µs", *(f">{_word(name)}" for name in shown), "binds"]
    rows = [
        [
            one.name,
            *(_marked(one, one.calibrated_floors_us, name, measured=True) for name in shown),
            _word(one.calibrated_limiter),
        ]
        for one in found
    ]
    out_table(head, rows)
    out_note(f"measured on {rates.about.get('gpu', rates.chip)}, driver {rates.driver}, {rates.date[:10]}")


def _show_measured(task: Task, chip: Chip, found: Sequence[CaseLimits], taken: dict[str, list[MeasuredCase]]) -> None:
    rows = []
    for one in found:
        for time in taken.get(one.name, []):
            scaled = scaled_floor(one, chip, time.clock_mhz) if time.clock_mhz else None
            rows.append([
                one.name, time.what, microseconds(time.p50_us), microseconds(time.cold_us) if time.cold_us else "",
                f"{one.flop / time.p50_us * 1e-6:.1f}" if one.flop else "",
                f"{one.best_floor_us / time.p50_us:.0%}" if one.best_floor_us else "",
                f"{time.clock_mhz:.0f}" if time.clock_mhz else "", f"{scaled / time.p50_us:.0%}" if scaled else "",
                f"{one.target_us / time.p50_us:.2f}x" if one.target_us else "",
            ])  # fmt: skip
    if not rows:
        out(f"nothing of {task.name} has been measured on {chip.slug} yet: its targets are unmeasured")
        return
    head = ["measured", "what", ">p50 µs", ">cold", ">TFLOP/s", ">of best floor", ">MHz", ">of floor at that clock"]
    out_table([*head, ">target / p50"], rows)


def _draw(
    path: Path, task: Task, chip: Chip, found: Sequence[CaseLimits], taken: dict[str, list[MeasuredCase]], root: Path
) -> None:
    """The roofline with what was measured; if nothing was, with the champions' modelled times, which are called so."""
    from evo.cli import pages

    points = [
        pages.RooflineDot(case=one.name, what=name, role=role, p50_us=time.p50_us)
        for one in found
        for time in taken.get(one.name, [])
        for role, _, name in [time.what.partition(" ")]
    ]
    timing = "measured" if points else "modelled"
    roof = pages.roofline(task.name, chip, timing, found, points or _modelled_champions(root, task, chip))
    if not pages.drawable(roof):
        hint = "a roofline needs `work.flop` in task.yaml and a chip whose peak rates are known"
        raise UsageError(f"--plot {path}: {task.name} on {chip.slug} cannot be drawn", hint=hint)
    try:
        path.write_text(pages.roof_svg(roof), encoding="utf-8")
    except OSError as error:
        raise HarnessFault(f"{path}: {error.strerror}", hint="name a file in a writable folder") from None
    say(f"roofline drawn in {path}")


def _modelled_champions(root: Path, task: Task, chip: Chip) -> list[RooflineDot]:
    from evo.cli import pages
    from evo.records.leaderboard import entries, load

    return [
        pages.RooflineDot(case=name, what=entry.variant, role="champion", modelled_us=case.modelled_us)
        for entry in entries(load(root), task=task.name, timing="modelled")
        if entry.chip == f"sim-{chip.slug}"
        for name, case in entry.cases.items()
    ]


def _marked(one: CaseLimits, floors: dict[str, float], name: str, *, measured: bool = False) -> str:
    value = floors.get(name)
    if value is None:
        return ""
    if name == "dram_warm" and value == 0:
        return "in L2"
    return ("~" if name in one.estimated and not measured else "") + microseconds(value)


def _best_word(one: CaseLimits) -> str:
    """What binds by the best estimate."""
    is_guess = one.best_limiter in one.estimated and one.best_limiter not in one.calibrated_floors_us
    return ("~" if is_guess else "") + _word(one.best_limiter)


def _short(value: float | None) -> str:
    return f"{value:.4g}" if value is not None else ""


def _count(value: float | None) -> str:
    return f"{value:,.0f}" if value is not None else ""


def _word(floor: str) -> str:
    return {**_FLOORS, "l2": "L2", "wave_quantum": "quantum"}.get(floor, floor)
