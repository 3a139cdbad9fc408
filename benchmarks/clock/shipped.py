"""The modelled clock on what this repository ships: the order of each task's rungs, and the measured knob spaces.

Rungs are rows of the clock's data set. Of a space, some points are drawn with a fixed seed and estimated on `sim:h200`.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from dataset import H200, Row
from report import ROOT, table
from scipy.stats import spearmanr

from evo.device import BenchCase, parse_device
from evo.device.sim_device import SimDevice
from evo.evaluate.prepare import PrepareFailure, prepare
from evo.results import Fault
from evo.spec.dtypes import NUMPY
from evo.spec.reference import load_module
from evo.spec.task import Task, load_task, task_names
from evo.spec.variant import read_variant

APART = 1.10  # of two times, to have an order


def rungs(rows: Sequence[Row]) -> str:
    """A table: of each task and case, the pairs of rungs measured over 10 % apart, and those told right."""
    defaults = {
        f"{task}/{path.stem}": read_variant(path).knob_values
        for task in task_names(ROOT)
        for path in load_task(ROOT, task).ladder()
    }
    groups: dict[str, list[tuple[str, Row]]] = {}
    for row in rows:
        name, _, case = row.family.partition("@")
        if defaults.get(name) == row.knobs:
            groups.setdefault(f"{name.split('/')[0]}@{case}", []).append((name.split("/")[1], row))
    lines = []
    for group, found in sorted(groups.items()):
        pairs = [
            (a, b) for at, a in enumerate(found) for b in found[:at] if abs(np.log(a[1].us / b[1].us)) > np.log(APART)
        ]
        said = {row.id: row.modelled(H200)[0] for _, row in found}
        wrong = [(a, b) for a, b in pairs if (a[1].us < b[1].us) != (said[a[1].id] < said[b[1].id])]
        if pairs:
            told = f"{len(pairs) - len(wrong)} of {len(pairs)}"
            lines.append([group, str(len(found)), told, ", ".join(f"{a[0]} and {b[0]}" for a, b in wrong) or "-"])
    return table(["rungs of", "measured", "pairs >10 % told right", "wrong"], lines)


def spaces(count: int) -> str:
    """A table: rank correlation over some points of each shipped space that an H200 measured."""
    device = SimDevice(parse_device("sim:h200"))
    lines = []
    for path in sorted((ROOT / "benchmarks/spaces").glob("*_H200_T4.json.gz")):
        pairs = list(_estimated(path, count, device))
        measured, said = (np.array(column) for column in zip(*pairs, strict=True))
        i, j = np.triu_indices(len(pairs), 1)
        apart = np.abs(np.log(measured[i] / measured[j])) > np.log(APART)
        right = (measured[i] < measured[j]) == (said[i] < said[j])
        lines.append(
            [
                path.name.removesuffix("_H200_T4.json.gz"), str(len(pairs)),
                f"{spearmanr(measured, said).statistic:.3f}", f"{right[apart].mean():.3f}",
                f"{measured[said.argmin()] / measured.min() - 1:.3f}",
            ]
        )  # fmt: skip
    return table(["space", "points", "Spearman", ">10 %", "regret"], lines)


def _estimated(path: Path, count: int, device: SimDevice) -> Iterator[tuple[float, float]]:
    """Of each point that is drawn: measured and modelled us."""
    space: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    about = space["metadata"]
    task = load_task(ROOT, about["task"])
    case = task.case(next(iter(about["case"])))
    variant = read_variant(next(path for path in task.ladder() if path.name == about["kernel"]))
    inputs = _inputs(task, case.axes)
    points = [point for point in space["results"] if point["measurements"]]
    for point in random.Random(path.name).sample(points, min(count, len(points))):
        text = variant.with_knobs(point["configuration"]).text
        found = prepare(task, text, chip=H200, arch="sm_90", cases=[case], static_rules=False)
        if isinstance(found, PrepareFailure):
            raise SystemExit(f"{path.name}: {found.reason}")
        rows = device.estimate([BenchCase(program=found.programs[case.name], inputs=inputs)])
        if isinstance(rows, Fault):
            raise SystemExit(f"{path.name}: {rows.message}")
        estimate = rows[0].estimate
        assert estimate is not None
        yield point["measurements"][0]["value"], estimate.modelled_us


def _inputs(task: Task, axes: dict[str, int]) -> dict[str, Any]:
    drawn = load_module(ROOT / "kernels" / task.name / "reference.py").inputs(axes, np.random.default_rng(0))
    named = {tensor.name: tensor for tensor in task.tensors if tensor.role in ("in", "inout")}
    return {
        name: np.ascontiguousarray(np.asarray(drawn[name]).astype(NUMPY[tensor.dtype], copy=False))
        for name, tensor in named.items()
    }
