"""`evo tune`: search a knob space: of a kernel file on a device, a measured one by replay, or any by ask-tell."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Option

from evo.cli.chips import HeadlineCase
from evo.cli.command_context import read_subject, session_of
from evo.cli.options import DEFAULT_ARCH, ArchWord, AsJson, DeviceWord, TaskWord, choose_device
from evo.cli.stage_line import stage
from evo.cli.terminal import microseconds, out, out_json, out_json_line, out_table, paint, plain, say
from evo.errors import UsageError

if TYPE_CHECKING:
    from evo.cli.analysis_outputs import ReplayedSpaceOutput, TuneOutput
    from evo.search.knobs.replay import Summary
    from evo.search.knobs.space import MeasuredSpace
    from evo.search.knobs.sweep import Sweep, SweepTrial
    from evo.search.knobs.t1_t4_files import DeclaredSpace
    from evo.spec.variant import KnobValue

_BUDGET = 220
_CURVE_AT = (1, 5, 10, 20, 40, 60, 100, 150, 220, 300, 500, 1000)
_SAVE_EVERY_S = 20.0


def tune(
    context: Context,
    file: Annotated[
        Path | None, Argument(metavar="FILE", show_default=False, help="A .cu variant with `// evo: knob` lines.")
    ] = None,
    space: Annotated[
        Path | None,
        Option("--space", metavar="FILE", help="Replay a measured space (T4), or show a declared one (T1)."),
    ] = None,
    ask_tell: Annotated[bool, Option("--ask-tell", help="Speak JSON lines on stdin and stdout.")] = False,
    budget: Annotated[
        int | None, Option("--budget", metavar="N", min=1, help="Maximum number of evaluations (default: 220).")
    ] = None,
    seed: Annotated[int, Option("--seed", metavar="N", min=0, help="Seed of the search.")] = 0,
    runs: Annotated[
        int, Option("--runs", metavar="N", min=1, help="Number of replays, with seeds from --seed upwards.")
    ] = 1,
    strategy: Annotated[
        str, Option("--strategy", metavar="NAME", help="evo, random, genetic, annealing, or all configurations.")
    ] = "evo",
    objective: Annotated[
        str | None, Option("--objective", metavar="NAME", help="The measurement to optimise (default: the file's).")
    ] = None,
    maximise: Annotated[
        bool | None, Option("--maximise/--minimise", help="The direction (default: by the objective's name).")
    ] = None,
    task: TaskWord = None,
    case: HeadlineCase = None,
    device: DeviceWord = "auto",
    arch: ArchWord = DEFAULT_ARCH,
    save: Annotated[
        Path | None, Option("--out", metavar="FILE", help="Store the results (T4); an existing file is continued.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Search a knob space for the fastest configuration: on a device, by replay of a measured space, or by ask-tell."""
    if file is None:
        _use_one_thread()
    from evo.search.knobs.strategies import known_strategy

    if (file is not None) + (space is not None) + ask_tell != 1:
        hint = "`evo tune FILE.cu`, `evo tune --space FILE.json.gz` or `evo tune --ask-tell`"
        raise UsageError("give one of FILE, --space and --ask-tell", hint=hint)
    known_strategy(strategy)
    if ask_tell:
        return _converse(strategy, budget or _BUDGET, seed)
    if space is not None:
        return _replay(space, strategy, budget or _BUDGET, seed, runs, objective, maximise, json)
    assert file is not None
    return _tuned(context, file, task, case, device, arch, strategy, budget, seed, save, json)


def _use_one_thread() -> None:
    """Before numpy is there: its matrices are small here, and searches run side by side."""
    from evo.spec.process_settings import algebra_threads

    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        if os.environ.get(name, algebra_threads()) == algebra_threads():  # no choice of the user
            os.environ[name] = "1"


# --- ask-tell


def _converse(name: str, budget: int, seed: int) -> int:
    from evo.search.knobs.ask_tell import AskTellSession
    from evo.search.knobs.strategies import strategy

    protocol = AskTellSession(lambda space, seed: strategy(name, space, seed=seed), budget=budget, seed=seed)
    for reply in protocol.replies(iter(sys.stdin.readline, "")):
        out_json_line(reply)
    return 0


# --- replay


def _replay(
    path: Path, name: str, budget: int, seed: int, runs: int, objective: str | None, maximise: bool | None, json: bool
) -> int:
    from evo.evaluate.counted_stage import CountedStage
    from evo.search.knobs import t1_t4_files
    from evo.search.knobs.replay import replays
    from evo.search.knobs.strategies import strategy

    if t1_t4_files.is_declaration(path):
        return _describe(t1_t4_files.read_declaration(path), json)
    measured = t1_t4_files.read_results(path, objective=objective, maximise=maximise)

    def make(at: int):  # type: ignore[no-untyped-def]
        stage(CountedStage("replay", "run", at - seed, runs))
        return strategy(name, measured.space, seed=at)

    summary = replays(measured, make, range(seed, seed + runs), budget=budget)
    stage("")
    if json:
        out_json(replay_output(measured, summary, name, budget).to_json())
    else:
        _show_replay(measured, summary, name, budget)
    return 0


def _describe(declared: DeclaredSpace, json: bool) -> int:
    found = declared.space()
    knobs = {knob.name: list(knob.values) for knob in found.knobs}
    if json:
        from evo.cli.analysis_outputs import DeclaredSpaceOutput

        declaration = DeclaredSpaceOutput(
            name=found.name,
            knobs={name: tuple(values) for name, values in knobs.items()},
            conditions=tuple(made.text for made in declared.conditions),
            product=found.product,
            legal=found.count,
        )
        out_json(declaration.to_json())
        return 0
    out(f"{paint(plain(found.name), 'bold')}  {found.count:,} legal of {found.product:,} combinations")
    out_table(
        ["knob", ">values", ""],
        [[plain(name), str(len(values)), plain(", ".join(map(str, values)))] for name, values in knobs.items()],
        flexible=2,
    )
    say("this file only declares a space; a replay needs the results of a T4 file")
    return 0


def replay_output(measured: MeasuredSpace, summary: Summary, name: str, budget: int) -> ReplayedSpaceOutput:
    from evo.cli.analysis_outputs import ReplayedSpaceOutput

    return ReplayedSpaceOutput(
        space=measured.space.name,
        legal=measured.space.count,
        failed=int((measured.times != measured.times).sum()),
        optimum=float(measured.optimum if measured.minimise else 1 / measured.optimum),
        strategy=name,
        budget=budget,
        seeds=tuple(run.seed for run in summary.runs),
        loss=summary.loss,
        losses=tuple(run.loss for run in summary.runs),
        curve=tuple(float(value) for value in summary.curve),
        unit=measured.unit,
        loss_interval=summary.loss_interval if len(summary.runs) > 1 else None,
        within_5_percent=tuple(summary.within(0.05)),
        within_1_percent=tuple(summary.within(0.01)),
    )


def _show_replay(measured: MeasuredSpace, summary: Summary, name: str, budget: int) -> None:
    failed = int((measured.times != measured.times).sum())
    best = measured.optimum if measured.minimise else 1 / measured.optimum
    runs = len(summary.runs)
    out(f"{paint(plain(measured.space.name), 'bold')}  {measured.space.count:,} legal, {failed:,} of them failed")
    out(
        f"optimum {best:.6g} {measured.unit}".rstrip() + f"; {name}, {budget} evaluations, {runs} run{'s' * (runs > 1)}"
    )
    low, high = summary.loss_interval
    spread = f"  ({low:.4f} to {high:.4f}, 95 % over seeds)" if runs > 1 else ""
    out(f"loss {summary.loss:.4f}{spread}")
    for share in (0.05, 0.01):
        middle, late = summary.quantile_within(share, 0.5), summary.quantile_within(share, 0.95)
        if runs == 1:
            out(f"within {share:.0%} after {_count(middle, budget)}")
        else:
            reached = sum(found is not None for found in summary.within(share))
            line = f"within {share:.0%} after {_count(middle, budget)} (median), {_count(late, budget)} (95 % of runs)"
            out(f"{line}; {reached} of {runs} runs")
    at = [point for point in _CURVE_AT if point < budget] + [budget]
    out_table(
        ["evaluations", *(f">{point}" for point in at)],
        [["optimum / best so far", *(f"{summary.curve[point - 1]:.3f}" for point in at)]],
    )


def _count(evaluations: int | None, budget: int) -> str:
    return f"{evaluations}" if evaluations is not None else f"more than {budget}"


# --- a kernel file on a device


def _tuned(
    context: Context,
    file: Path,
    task: str | None,
    case: str | None,
    device: str,
    arch: str,
    name: str,
    budget: int | None,
    seed: int,
    save: Path | None,
    json: bool,
) -> int:
    from evo.evaluate.session import EvaluationSession
    from evo.search.knobs.strategies import strategy
    from evo.search.knobs.sweep import Sweep

    subject = read_subject(session_of(context), file, task)
    chosen = subject.task.case(case or subject.task.headline)
    if save is not None and not save.absolute().parent.is_dir():
        raise UsageError(f"--out {save}: no such folder", hint="give --out a file in a folder that exists")
    with EvaluationSession(choose_device(device), arch=arch, on_stage=stage) as bench:
        sweep = Sweep(subject.task, subject.variant, chosen, bench)
        space = sweep.space()
        known = sweep.known(save) if save is not None else {}
        limit = budget or (space.count if name == "all" else _BUDGET)
        say(f"{space.count:,} combinations of {subject.path} can be launched on {bench.device} at {chosen.name}")
        searcher = strategy(name, space, seed=seed)
        found = list(_followed(sweep, sweep.run(space, searcher, limit, seed, known), known, save, limit))
        modelled = bench.modelled
        best = _best(found, subject.variant.knob_values)
        if json:
            out_json(_tuned_output(sweep, found, best, space.count).to_json())
        else:
            _show_tuned(subject.variant.knob_values, found, best, modelled)
    return 0 if best is not None else 1


def _followed(
    sweep: Sweep,
    trials: Iterator[SweepTrial],
    known: Mapping[tuple[object, ...], SweepTrial],
    save: Path | None,
    limit: int,
) -> Iterator[SweepTrial]:
    """Yield trials, show progress, and store the results so far, also after an interrupt."""
    import time

    from evo.evaluate.counted_stage import CountedStage

    kept: dict[tuple[object, ...], SweepTrial] = dict(known)
    saved, best = time.monotonic(), float("inf")
    try:
        for number, trial in enumerate(trials, start=1):
            kept[tuple(trial.values.values())] = trial
            best = min(best, trial.time_us or float("inf"))
            if number < limit:
                name = f"best {microseconds(best)} µs" if best < float("inf") else ""
                stage(CountedStage("tune", "configuration", number, limit, name))
            if save is not None and time.monotonic() - saved > _SAVE_EVERY_S:
                sweep.write(save, kept.values())
                saved = time.monotonic()
            yield trial
    finally:
        stage("")
        if save is not None and kept:
            sweep.write(save, kept.values())


def _best(found: list[SweepTrial], start: Mapping[str, KnobValue]) -> SweepTrial | None:
    """The fastest configuration; among equals the one with the fewest changes to the file."""

    def order(trial: SweepTrial) -> tuple[float, int]:
        return trial.time_us or 0.0, sum(start[name] != value for name, value in trial.values.items())

    return min((trial for trial in found if trial.time_us is not None), key=order, default=None)


def _tuned_output(sweep: Sweep, found: list[SweepTrial], best: SweepTrial | None, legal: int) -> TuneOutput:
    from evo.cli.analysis_outputs import BestConfiguration, TuneOutput

    shown = TuneOutput.from_json({**sweep.metadata(), "legal": legal, "trials": sweep.results(found)})
    if best is None:
        return shown
    return replace(shown, best=BestConfiguration(configuration=best.values, time_us=best.time_us))


def _show_tuned(
    start: Mapping[str, KnobValue], found: list[SweepTrial], best: SweepTrial | None, modelled: bool
) -> None:
    word = "modelled" if modelled else "measured"
    failed: dict[str, int] = {}
    for trial in found:
        if trial.time_us is None:
            failed[trial.status.value] = failed.get(trial.status.value, 0) + 1
    totals = ", ".join(f"{count} {status}" for status, count in sorted(failed.items()))
    out(f"{len(found)} tried, {len(found) - sum(failed.values())} {word}" + (f", {totals}" if totals else ""))
    if best is None:
        say("no combination ran; `evo check FILE` says why")
        return
    ranked = sorted((t for t in found if t.time_us is not None), key=lambda trial: trial.time_us or 0.0)[:5]
    rows = [[*(str(value) for value in trial.values.values()), microseconds(trial.time_us or 0.0)] for trial in ranked]
    out_table([*(f">{name}" for name in start), f">{word} µs"], rows)
    changed = {name: value for name, value in best.values.items() if start.get(name) != value}
    if changed:
        out("best: " + ", ".join(f"{name} {start.get(name)} -> {value}" for name, value in changed.items()))
        out("with --out RESULTS, `evo apply FILE --tuned RESULTS` writes the best into FILE")
    else:
        out("best: the file's own knob values")
