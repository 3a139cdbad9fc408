"""Candidates per second by number of stations: one list of candidates, evaluated anew on 1, 2, ... GPUs.

A knob sweep of attention against its rung over all its bench cases: compile, both gates, bench, decision; caches are
empty folders. Opening stations and evaluating the rung at each stand apart, since a run pays for them once. Every
candidate must have the same status everywhere; verdicts of gains near the margin may differ, and are counted.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from report import ROOT, parser, required_gpu, run, say, table, verdict, write_json
from throughput import SWEPT, drawn, knob_space

from evo.device import DeviceName, gpu_count, parse_device
from evo.evaluate.pipeline import Job
from evo.search.cluster import WorkerPool, open_site, parse_cluster
from evo.spec.chips import chip
from evo.spec.task import Task, load_task
from evo.spec.variant import parse_variant

AIM = 0.85  # of linear scaling: 3.4x on four GPUs


def swept(count: int, seed: int, slug: str) -> tuple[Task, list[str], str]:
    """The task, the candidates' texts, and the text that they are held against."""
    task_name, rung, _ = SWEPT
    task = load_task(ROOT, task_name)
    text = (task.folder / "ladder" / f"{rung}.cu").read_text(encoding="utf-8")
    variant = parse_variant(text)
    legal = knob_space(task, text, (*task.check, *task.bench), chip(slug))
    settings = drawn([s for s in legal if s != variant.knob_values], count, seed)
    return task, [variant.with_knobs(setting).text for setting in settings], text


def measured(spec: str, device: DeviceName, count: int, seed: int, slug: str) -> dict[str, Any]:
    """One cluster over the whole list, with compile caches of its own."""
    task, texts, rival = swept(count, seed, slug)
    with tempfile.TemporaryDirectory(prefix="evo-cluster-") as cache:
        os.environ["EVO_CACHE"] = cache
        began = time.perf_counter()
        notes: list[str] = []
        with WorkerPool(open_site(parse_cluster(spec), device), note=notes.append) as pool:
            while not all(slot.name or slot.retired for slot in pool.slots()):
                time.sleep(0.05)
            opened = time.perf_counter()
            # The parent first, as in a run, and at every station: inputs and the reference's answers are made there.
            for future in [pool.submit(Job(task=task, text=rival, seed=seed)) for _ in range(pool.width)]:
                future.result()
            ready = time.perf_counter()
            jobs = [Job(task=task, text=text, rival=rival, seed=seed, sanitize=False) for text in texts]
            found = [evaluation for _, evaluation in pool.evaluate_all(jobs)]
            done = time.perf_counter()
    stages: dict[str, list[float]] = {}
    for evaluation in found:
        for name, seconds in evaluation.stages_s.items():
            stages.setdefault(name, []).append(seconds)
    return {
        "cluster": spec,
        "candidates": len(found),
        "open_s": opened - began,
        "parent_s": ready - opened,
        "wall_s": done - ready,
        "seconds_each": (done - ready) / len(found),
        "statuses": [evaluation.status.value for evaluation in found],
        "verdicts": [evaluation.decision.verdict.value if evaluation.decision else None for evaluation in found],
        "stages_s": {name: statistics.median(values) for name, values in sorted(stages.items())},
        "places": len({evaluation.environment.detail.get("uuid", "") for evaluation in found}),
        "notes": notes,
    }


def compared(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each cluster beside the first one: speed-up, unlike statuses and verdicts."""
    first = rows[0]
    return [
        {
            "cluster": row["cluster"],
            "speed_up": first["wall_s"] / row["wall_s"],
            "stations": int(row["cluster"].split(":")[1]),
            "other_statuses": sum(a != b for a, b in zip(first["statuses"], row["statuses"], strict=True)),
            "other_verdicts": sum(a != b for a, b in zip(first["verdicts"], row["verdicts"], strict=True)),
        }
        for row in rows
    ]


def report_text(rows: Sequence[dict[str, Any]]) -> str:
    beside = compared(rows)
    cells = [
        (
            row["cluster"],
            f"{row['wall_s']:.1f}",
            f"{row['seconds_each']:.3f}",
            f"{more['speed_up']:.2f}x",
            more["other_statuses"],
            more["other_verdicts"],
        )
        for row, more in zip(rows, beside, strict=True)
    ]
    lines = [table(["cluster", "wall s", "s each", "speed-up", "other statuses", "other verdicts"], cells)]
    for row in rows:
        parts = ", ".join(f"{name} {value:.2f} s" for name, value in row["stages_s"].items())
        lines.append(f"{row['cluster']}: medians {parts}")
    for more in beside:
        share = more["stations"] / beside[0]["stations"]
        if share > 1:
            figure = f"{more['speed_up']:.2f}x, aim {AIM * share:.2f}x"
            lines.append(verdict(f"{more['cluster']} scales", more["speed_up"] >= AIM * share, figure))
    same = all(not more["other_statuses"] for more in beside)
    lines.append(verdict("the same statuses everywhere", same, f"{len(rows)} runs"))
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    made = parser(__doc__ or "")
    made.add_argument("--device", default="gpu:0", help="gpu:N or sim:CHIP (default: gpu:0)")
    made.add_argument("--chip", default="h200", help="whose limits the candidates are drawn under (default: h200)")
    made.add_argument("--kinds", nargs="+", default=["processes"], choices=["processes", "local"])
    made.add_argument("--counts", nargs="+", type=int, help="stations (default: 1 and all GPUs)")
    made.add_argument("--candidates", type=int, default=48)
    made.add_argument("--seed", type=int, default=1)
    options = made.parse_args(argv)
    device = parse_device(options.device)
    if device.kind == "gpu":
        required_gpu(int(device.which))
    candidates = max(4, options.candidates // 10) if options.quick else options.candidates
    counts = options.counts or sorted({1, max(1, gpu_count())})
    rows = []
    for spec in [f"{kind}:{count}" for kind in options.kinds for count in counts]:
        row = measured(spec, device, candidates, options.seed, options.chip)
        rows.append(row)
        say(
            f"{spec}: {row['candidates']} candidates in {row['wall_s']:.1f} s on {row['places']} devices; "
            f"opened in {row['open_s']:.1f} s, parent {row['parent_s']:.1f} s"
        )
        for note in row["notes"]:
            say(f"  {note}")
    print(report_text(rows))
    write_json(options.json, {"rows": rows, "compared": compared(rows)})
    return 0


if __name__ == "__main__":
    run(main)
