"""On a GPU, kernels as strangers write them beside expert versions, and what the rules bring within seconds each.

For each kernel of tests/data/foreign, or of `--tasks`: the expert version (experts/NAME.cu), the champion of a run if
`--champions` has one, and a climb by first looks alone: of the proposals of all rules and plans the fastest is taken,
again and again until the seconds are up. A first look checks elements of the outputs at the timed case, not the whole
gate: so these figures say what there is to gain, and `evo iterate` is what keeps it.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from report import ROOT, run, say, table, write_json

from evo.cuda.source import classify, tree_difference
from evo.device import DeviceName
from evo.evaluate.screening import screened_gains
from evo.evaluate.session import EvaluationSession
from evo.operators import RULES, Context
from evo.operators.one_change import clutter
from evo.operators.rules.operator import integers_of
from evo.operators.rules.plans import PlanOperator
from evo.spec.task import Task, read_task
from evo.spec.variant import Variant, parse_variant

FOREIGN = ROOT / "tests" / "data" / "foreign" / "kernels"
EXPERTS = Path(__file__).parent / "experts"
GAIN = 1.03
MOST, MOST_PLANS = 24, 8  # proposals of one round


def main(words: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("--device", default="gpu:0", metavar="NAME")
    made.add_argument("--arch", default="native", metavar="ARCH")
    made.add_argument(
        "--tasks", type=Path, default=FOREIGN, metavar="DIR", help="task folders with a ladder, or adopted"
    )
    made.add_argument("--only", default="", metavar="NAMES", help="only these kernels")
    made.add_argument("--champions", type=Path, metavar="DIR", help="NAME.cu of another run, timed too")
    made.add_argument("--each", type=float, default=10, metavar="SECONDS", help="after which no round begins")
    made.add_argument("--limit", type=float, default=300, metavar="SECONDS", help="after which no kernel begins")
    made.add_argument("--json", type=Path, metavar="OUT", help="every figure, after each kernel")
    asked = made.parse_args(words)
    names = [name for name in asked.only.split(",") if name] or sorted(
        path.parent.name for path in asked.tasks.glob("*/task.yaml")
    )
    rows: dict[str, dict[str, Any]] = {}
    began = time.monotonic()
    kind, _, which = asked.device.partition(":")
    with EvaluationSession(DeviceName(kind, which), arch=asked.arch) as bench:
        for name in names:
            if time.monotonic() - began > asked.limit:
                break
            rows[name] = measured(bench, name, asked)
            say(f"{name}: {rows[name]}")
            write_json(asked.json, {"device": bench.about, "seconds": time.monotonic() - began, "kernels": rows})
    report(rows)
    return 0


def measured(bench: EvaluationSession, name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Gains over the start: of the expert version, of the other run's champion, and of the climb with its steps."""
    task, began = read_task(asked.tasks / name), time.monotonic()
    rungs = task.ladder() or (task.folder / "original.cu",)  # that is what `evo adopt` keeps
    start = rungs[0].read_text(encoding="utf-8")
    given = {"expert": EXPERTS / f"{name}.cu"}
    if asked.champions is not None:
        given["champion"] = asked.champions / f"{name}.cu"
    texts = {word: path.read_text(encoding="utf-8") for word, path in given.items() if path.exists()}
    row: dict[str, Any] = dict(zip(texts, screened_gains(bench, task, start, list(texts.values()), 0), strict=True))
    parent, row["steps"], row["tried"] = parse_variant(start, path=name), [], 0
    while time.monotonic() - began < asked.each:
        children = list(proposals(bench, task, parent))
        gains = screened_gains(bench, task, parent.text, [child.text for _, child in children], 0)
        row["tried"] += len(children)
        best = max(range(len(children)), key=lambda at: gains[at] or 0.0, default=None)
        if best is None or (gains[best] or 0.0) < GAIN:
            break
        row["steps"].append([children[best][0], gains[best]])
        parent = children[best][1]
    # Steps were timed one by one; the last against the first, side by side, is the figure.
    row["climb"] = screened_gains(bench, task, start, [parent.text], 1)[0] if row["steps"] else 1.0
    row["text"], row["seconds"] = parent.text, round(time.monotonic() - began, 1)
    return row


def proposals(bench: EvaluationSession, task: Task, parent: Variant) -> Iterator[tuple[str, Variant]]:
    """The first two of each rule, six of the knobs, that are one change and fit the chip; and the first plans."""
    context, many = Context(task=task, chip=bench.chip), 0
    for rule in sorted(RULES, key=lambda rule: rule.name in ("flag", "register_cap", "min_blocks", "add_bounds")):
        places = rule.applications(parent, flags=task.flags, axes=integers_of(task), task=task, chip=bench.chip)
        for place in sorted(places, key=lambda each: each.rank)[: 6 if rule.name == "knob" else 2]:
            child = rule.build(parent, place)
            if child is None or not context.fits(child) or many == MOST:
                continue
            is_one = (
                clutter(parent.text, child.text) is None
                if place.is_schedule
                else classify(tree_difference(parent.text, child.text)).is_single
            )
            if is_one:
                many += 1
                yield f"{rule.name}: {place.summary}", child
    yield from planned(context, parent)


def planned(context: Context, parent: Variant) -> Iterator[tuple[str, Variant]]:
    """Plans whole, then their beginnings."""
    plans, ends, rng = PlanOperator(RULES), set[str](), random.Random(0)
    while len(ends) < MOST_PLANS:
        found = plans.propose(parent, rng=rng, context=replace(context, tried=ends))
        if found is None:
            return
        ends.add(found.variant.id)
        yield found.summary, found.variant


def report(rows: dict[str, dict[str, Any]]) -> None:
    words = ("expert", "champion", "climb")
    shown = [[name, *(f"{row[w]:.2f}" if row.get(w) else None for w in words), len(row["steps"]), row["seconds"]]
             for name, row in rows.items()]  # fmt: skip
    say(table(["kernel", *(f"{word} x" for word in words), "steps", "s"], shown))
    for word in words:
        gains = [row[word] for row in rows.values() if row.get(word)]
        if gains:
            mean = math.exp(statistics.fmean(map(math.log, gains)))
            say(f"{word}: median {statistics.median(gains):.2f}x, geometric mean {mean:.2f}x of {len(gains)}")
    for word in ("champion", "climb"):
        shares = [row[word] / row["expert"] for row in rows.values() if row.get(word) and row.get("expert")]
        if shares:
            say(f"{word} against expert: {statistics.median(shares):.0%} of its speed at the median of {len(shares)}")


if __name__ == "__main__":
    sys.exit(run(main))
