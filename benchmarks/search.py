"""How soon a knob search is near the optimum: evo against plain strategies and Kernel Tuner, by replay of known spaces.

The measure: loss = 1 - mean over the evaluations of optimum / best so far; a distinct legal configuration is one
evaluation, failed or not. Ratios are to Kernel Tuner's adaptive_tabu_greywolf on the same space. `--spaces` adds T4
files. Kernel Tuner is run where an interpreter has it (`--kernel-tuner`); otherwise the losses recorded in
spaces/kernel_tuner.json are used, and the table says so.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import importlib.util
import json
import math
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from held_out_spaces import HELD_OUT
from plain_gp import PlainGp
from report import ROOT, run, say, table, verdict, write_json
from synthetic_spaces import SYNTHETIC

from evo.errors import HarnessFault, UsageError
from evo.search.knobs import t1_t4_files as formats
from evo.search.knobs.replay import BUDGET, ReplayRun, Summary, replays
from evo.search.knobs.space import Floats, MeasuredSpace
from evo.search.knobs.strategies import STRATEGIES

HERE = Path(__file__).parent
RECORDED = HERE / "spaces" / "kernel_tuner.json"
REFERENCE = "adaptive_tabu_greywolf"
MARKDOWN = ROOT / "docs" / "tune.md"
Reference = dict[str, float]  # mean loss, its standard error over seeds, and how many those were
MAKERS: dict[str, Any] = {**STRATEGIES, "gp": PlainGp}
FORMULAS = {**SYNTHETIC, **HELD_OUT}
_RESAMPLES = 2000
_LARGE = 150_000  # a product of knobs from which on Kernel Tuner takes minutes to list the space
_UNREFERENCED = ("hotspot1-large",)


def _share_within(summary: Summary, share: float, evaluations: int) -> float:
    """The part of the runs that was within the share after so many evaluations."""
    found = [reached for reached in summary.within(share) if reached is not None and reached <= evaluations]
    return len(found) / len(summary.runs)


def ratio_interval(losses: Iterable[Floats], references: Iterable[tuple[float, float]]) -> tuple[float, float, float]:
    """The geometric mean over spaces of loss / reference loss, and its 95 % interval.

    Losses are resampled over the runs; a reference is a mean and its standard error, drawn from a normal distribution.
    """
    ours, theirs = list(losses), list(references)
    rng = np.random.default_rng(0)
    logs = []
    for values, (mean, error) in zip(ours, theirs, strict=True):
        drawn = values[rng.integers(0, len(values), (_RESAMPLES, len(values)))].mean(axis=1)
        logs.append(np.log(drawn) - np.log(np.maximum(rng.normal(mean, error, _RESAMPLES), 0.1 * mean)))
    middle = np.mean([np.log(a.mean() / mean) for a, (mean, _) in zip(ours, theirs, strict=True)])
    low, high = np.exp(np.quantile(np.mean(logs, axis=0), [0.025, 0.975]))
    return float(np.exp(middle)), float(low), float(high)


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("--seeds", type=int, default=50, metavar="N", help="runs of each strategy on each space")
    made.add_argument("--budget", type=int, default=BUDGET, metavar="N", help="evaluations of a run")
    made.add_argument("--strategies", default="evo,random,gp", metavar="NAMES", help="of evo, gp, random, genetic, ...")
    made.add_argument("--spaces", nargs="*", type=Path, default=[], metavar="FILE", help="T4 files to add")
    made.add_argument("--held-out", action="store_true", help="the spaces that the search was not built on, instead")
    made.add_argument("--only", default="", metavar="NAMES", help="only these spaces")
    made.add_argument("--kernel-tuner", default=sys.executable, metavar="PYTHON", help="an interpreter that has it")
    made.add_argument("--record", action="store_true", help="keep Kernel Tuner's losses as the recorded reference")
    made.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    made.add_argument("--markdown", action="store_true", help=f"write the table into {MARKDOWN.relative_to(ROOT)}")
    made.add_argument("--json", type=Path, metavar="OUT", help="write every figure there")
    return made.parse_args(words)


def spaces(args: argparse.Namespace) -> tuple[dict[str, MeasuredSpace], dict[str, Path]]:
    """The shipped spaces and those of the command line, by name; and the files of those that have one."""
    given = [*sorted((HERE / "spaces").glob("*_T4.json.gz")), *args.spaces]
    files = {path.name.split(".")[0].removesuffix("_T4"): path for path in given}
    usual = list(HELD_OUT) if args.held_out else [*files, *SYNTHETIC]
    chosen = [name for name in args.only.split(",") if name] or usual
    if missing := [name for name in chosen if name not in files and name not in FORMULAS]:
        raise UsageError(f"--only: no space {missing[0]}", hint=f"one of {', '.join([*files, *FORMULAS])}")
    return {name: _space(name, files.get(name)) for name in chosen}, files


# --- Kernel Tuner


def kernel_tuner(python: str, measured: MeasuredSpace, strategy: str, seeds: int, budget: int) -> tuple[str, Summary]:
    """Its version and its runs. Raises HarnessFault where it fails."""
    space = measured.space
    assert space.legal is not None
    job = {
        "knobs": {knob.name: list(knob.values) for knob in space.knobs},
        "legal": [list(space.values(point)) for point in space.legal],
        "times": [None if np.isnan(cost) else float(cost) for cost in measured.costs],
        "strategy": strategy,
        "budget": budget,
        "seeds": list(range(seeds)),
    }
    script = str(HERE / "search_kernel_tuner.py")
    done = subprocess.run([python, script], input=json.dumps(job), capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessFault(f"Kernel Tuner failed: {done.stderr[-300:]}", hint="run it without --kernel-tuner")
    answer = json.loads(done.stdout.splitlines()[-1])
    runs = [ReplayRun(seed, _curve(tried, measured.optimum, budget)) for seed, tried in enumerate(answer["tried"])]
    return str(answer["version"]), Summary(tuple(runs))


def _curve(tried: Sequence[float | None], optimum: float, budget: int) -> Floats:
    """optimum / best so far; a search that ends early stays where it was."""
    best, curve = np.inf, np.zeros(budget)
    for index in range(budget):
        value = tried[index] if index < len(tried) else None
        best = min(best, np.inf if value is None else value)
        curve[index] = optimum / best
    return curve


def reference(args: argparse.Namespace, found: dict[str, MeasuredSpace]) -> tuple[dict[str, Reference], str]:
    """Kernel Tuner's losses per space, run here or as recorded, and where they come from."""
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {"losses": {}}
    at_hand = args.kernel_tuner != sys.executable or importlib.util.find_spec("kernel_tuner") is not None
    if not at_hand:
        losses = recorded["losses"] if args.budget == BUDGET else {}
        seeds = sorted({int(losses[name]["seeds"]) for name in found if name in losses})
        version = f"Kernel Tuner {recorded.get('version')}, {' or '.join(map(str, seeds))} seeds"
        return losses, f"recorded {recorded.get('date')}, {version}"
    losses: dict[str, Reference] = {}
    version = ""
    for name, measured in found.items():
        if name in _UNREFERENCED or (measured.space.product > _LARGE * 20):
            continue
        started = time.monotonic()
        version, summary = kernel_tuner(args.kernel_tuner, measured, REFERENCE, args.seeds, args.budget)
        error = float(summary.losses.std() / max(len(summary.runs) - 1, 1) ** 0.5)
        losses[name] = {"loss": round(summary.loss, 4), "error": round(error, 4), "seeds": args.seeds}
        say(f"{name}: {REFERENCE} {summary.loss:.4f} ({time.monotonic() - started:.0f} s)")
    if args.record:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        kept = {"strategy": REFERENCE, "version": version, "date": today, "budget": args.budget}
        RECORDED.write_text(json.dumps({**kept, "losses": {**recorded["losses"], **losses}}, indent=1) + "\n")
    return losses, f"run here, Kernel Tuner {version}, {args.seeds} seeds"


# --- the comparison


@dataclass(frozen=True)
class Part:
    """Some seeds of one strategy on one space: what a process is given."""

    space: str
    path: Path | None
    strategy: str
    seeds: tuple[int, ...]
    budget: int


@functools.lru_cache(maxsize=2)
def _space(name: str, path: Path | None) -> MeasuredSpace:
    return FORMULAS[name]() if path is None else formats.read_results(path)


def _replayed(part: Part) -> tuple[Part, list[ReplayRun], float]:
    """The runs of a part, and the processor time of one in seconds."""
    measured, make = _space(part.space, part.path), MAKERS[part.strategy]
    started = time.process_time()
    made = replays(measured, lambda seed: make(measured.space, seed=seed), part.seeds, budget=part.budget)
    return part, list(made.runs), (time.process_time() - started) / len(part.seeds)


def compared(
    args: argparse.Namespace, found: dict[str, MeasuredSpace], files: dict[str, Path], names: Sequence[str]
) -> dict[str, dict[str, Summary]]:
    """Replays of each strategy on each space, the seeds of a space side by side in --jobs processes."""
    size = math.ceil(args.seeds / args.jobs)
    seeds = [tuple(range(start, min(start + size, args.seeds))) for start in range(0, args.seeds, size)]
    parts = [
        Part(title, files.get(title), name, some, args.budget) for name in names for title in found for some in seeds
    ]
    runs: dict[tuple[str, str], list[ReplayRun]] = {}
    with contextlib.ExitStack() as stack:
        found_: Iterable[tuple[Part, list[ReplayRun], float]] = map(_replayed, parts)
        if args.jobs > 1:
            context = multiprocessing.get_context("spawn")
            found_ = stack.enter_context(ProcessPoolExecutor(args.jobs, mp_context=context)).map(_replayed, parts)
        for part, made, each in found_:
            at = runs.setdefault((part.space, part.strategy), [])
            at += made
            if len(at) == args.seeds:
                loss = np.mean([run_.loss for run_ in at])
                say(f"{part.space}: {part.strategy} {loss:.4f} ({each:.1f} s of processor time a run)")
    return {title: {name: Summary(tuple(runs[title, name])) for name in names} for title in found}


def rows(
    found: dict[str, MeasuredSpace],
    runs: dict[str, dict[str, Summary]],
    losses: dict[str, Reference],
    names: Sequence[str],
) -> tuple[list[str], list[list[object]]]:
    """The table: a row per space, losses per strategy, evo's ratio and its evaluations to within 5 % and 1 %."""
    head = [
        "space",
        "legal",
        *names,
        "Kernel Tuner",
        "evo ratio",
        "5 %: median",
        "95 %",
        "in 60",
        "1 %: median",
        "95 %",
    ]
    body: list[list[object]] = []
    for title, by_name in runs.items():
        row: list[object] = [title, f"{found[title].space.count:,}", *(f"{by_name[name].loss:.4f}" for name in names)]
        known = losses.get(title)
        row.append(f"{known['loss']:.4f}" if known else None)
        evo = by_name.get("evo")
        if evo is None:
            body.append([*row, *[None] * 6])
            continue
        row.append(f"{evo.loss / known['loss']:.2f}" if known else None)
        for share in (0.05, 0.01):
            row += [_or_more(evo.quantile_within(share, part), len(evo.curve)) for part in (0.5, 0.95)]
            if share == 0.05:
                row.append(f"{_share_within(evo, share, 60):.0%}")
        body.append(row)
    return head, body


def _or_more(evaluations: int | None, budget: int) -> str:
    return f">{budget}" if evaluations is None else str(evaluations)


def overall(
    runs: dict[str, dict[str, Summary]], losses: dict[str, Reference], names: Sequence[str]
) -> dict[str, tuple[float, float, float]]:
    """Per strategy the geometric mean ratio to Kernel Tuner, over the spaces with a reference, with its interval."""
    found = {}
    for name in names:
        titles = [title for title in runs if title in losses]
        if titles:
            ours = [runs[title][name].losses for title in titles]
            found[name] = ratio_interval(ours, [(losses[title]["loss"], losses[title]["error"]) for title in titles])
    return found


def markdown(head: Sequence[str], body: Sequence[Sequence[object]], lines: Sequence[str]) -> str:
    cells = [["" if cell is None else str(cell) for cell in row] for row in body]
    out = [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in cells)]
    return "\n".join([*out, "", *lines])


def main(words: Sequence[str] | None) -> int:
    args = arguments(words)
    names = [name for name in args.strategies.split(",") if name]
    if unknown := [name for name in names if name not in MAKERS]:
        raise UsageError(f"--strategies: no strategy {unknown[0]}", hint=f"one of {', '.join(MAKERS)}")
    if args.seeds < 1 or args.jobs < 1:
        raise UsageError("--seeds and --jobs start at 1", hint="leave them out for the defaults")
    found, files = spaces(args)
    losses, source = reference(args, found)
    runs = compared(args, found, files, names)
    head, body = rows(found, runs, losses, names)
    means = overall(runs, losses, names)
    lines = [
        f"{args.seeds} seeds, {args.budget} evaluations. Reference: {REFERENCE}, {source}.",
        *(f"{name}: {m:.3f} of its loss ({low:.3f} to {high:.3f}, 95 %)." for name, (m, low, high) in means.items()),
    ]
    print(table(head, body), *lines, sep="\n")
    if "evo" in means:
        ratio, _, high = means["evo"]
        print(
            verdict(
                "geometric mean at most 0.60, interval's end at most 0.70", ratio <= 0.6 and high <= 0.7, f"{ratio:.3f}"
            )
        )
    if args.markdown:
        mark = "bench-search-held-out" if args.held_out else "bench-search"
        text = MARKDOWN.read_text(encoding="utf-8")
        before, begin, rest = text.partition(f"<!-- {mark} -->\n")
        end = f"<!-- /{mark} -->"
        after = rest.partition(end)[2]
        MARKDOWN.write_text(f"{before}{begin}{markdown(head, body, lines)}\n{end}{after}", encoding="utf-8")
    write_json(
        args.json,
        {
            "seeds": args.seeds,
            "budget": args.budget,
            "reference": {"strategy": REFERENCE, "source": source, "losses": losses},
            "losses": {t: {n: [r.loss for r in s.runs] for n, s in by.items()} for t, by in runs.items()},
            "curves": {t: {n: [float(v) for v in s.curve] for n, s in by.items()} for t, by in runs.items()},
            "ratios": {name: list(found_) for name, found_ in means.items()},
        },
    )
    return 0


if __name__ == "__main__":
    run(main)
