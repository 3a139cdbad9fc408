"""The modelled clock on a measured space of others: a 2D convolution on an RTX A4000 (`spaces/convolution_A4000_T4`).

    python benchmarks/clock/public.py           counts the drawn configurations anew: 10 to 20 minutes

The space comes without its kernel. `spaces/convolution.cu` was written from the description of the parameters: the same
names and meanings, other text. Of each drawn configuration the data file keeps what its launch asks of the chip, so
`make bench-clock` compares orders in no time. No constant of the model was fitted to this chip or this space.
"""

from __future__ import annotations

import gzip
import json
import lzma
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from counting import counted
from dataset import works_of, write
from scipy.stats import kendalltau, spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from report import ROOT, say, table

from evo.device import parse_device
from evo.device.sim_device import SimDevice
from evo.evaluate.prepare import PrepareFailure, prepare
from evo.sim.timing_model import modelled_us
from evo.spec.chips import chip
from evo.spec.task import load_task
from evo.spec.variant import read_variant

FILE = ROOT / "benchmarks" / "data" / "convolution_a4000.jsonl.xz"
SPACE = ROOT / "benchmarks" / "spaces" / "convolution_A4000_T4.json.gz"
KERNEL = ROOT / "benchmarks" / "spaces" / "convolution.cu"
A4000 = chip("a4000")
POINTS, SEED = 60, 18
SIZE, BORDER = 4096, 14
APART = 1.10
_TASK = """\
name: convolution
description: An image by a filter of 15 x 15; nothing is checked.
axes: {H: int, W: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [H + 14, W + 14]}
  - {name: y, role: out, dtype: float32, shape: [H, W]}
tolerance: {rtol: 1, atol: 1, rival_error_factor: 2, because: nothing is checked}
check:
  - {name: small, H: 64, W: 64}
bench:
  whole: {H: 4096, W: 4096}
headline: whole
score: {whole: 1}
work: {flop: 450 * H * W, bytes: 8 * H * W}
"""
_REFERENCE = '''\
"""The convolution's input."""


def inputs(case, rng):
    return {"x": rng.random((case["H"] + 14, case["W"] + 14), dtype="float32")}


def expected(inputs, case):
    return {"y": inputs["x"][14:, 14:]}
'''


def drawn() -> list[tuple[dict[str, int], float]]:
    """Configurations drawn by a fixed seed, and their measured us."""
    space: dict[str, Any] = json.loads(gzip.decompress(SPACE.read_bytes()))
    points = [point for point in space["results"] if point["measurements"]]
    chosen = random.Random(SEED).sample(points, POINTS)
    return [(point["configuration"], point["measurements"][0]["value"] * 1000) for point in chosen]


def public() -> str:
    """A table: the modelled order beside the measured one."""
    lines = [json.loads(line) for line in lzma.decompress(FILE.read_bytes()).decode().splitlines()]
    measured = np.array([line["us"] for line in lines])
    said = np.array([_modelled_us(line) for line in lines])
    i, j = np.triu_indices(len(lines), 1)
    apart = np.abs(np.log(measured[i] / measured[j])) > np.log(APART)
    right = (measured[i] < measured[j]) == (said[i] < said[j])
    row = [
        "convolution (kernel written from the description)", "A4000", str(len(lines)),
        f"{measured.max() / measured.min():.1f}", f"{spearmanr(measured, said).statistic:.3f}",
        f"{kendalltau(measured, said).statistic:.3f}", f"{right[apart].mean():.3f}",
        f"{measured[said.argmin()] / measured.min() - 1:.3f}", f"{np.median(said / measured):.2f}",
    ]  # fmt: skip
    head = [
        "space of others",
        "chip",
        "points",
        "spread",
        "Spearman",
        "Kendall",
        ">10 %",
        "regret",
        "modelled/measured",
    ]
    return table(head, [row])


def _modelled_us(line: dict[str, Any]) -> float:
    return modelled_us(works_of(line), A4000, footprint_bytes=line["footprint"])[0]


def main() -> int:
    device = SimDevice(parse_device("sim:a4000"))
    image = np.random.default_rng(0).random((SIZE + BORDER, SIZE + BORDER), dtype=np.float32)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        task = _task(Path(folder))
        case = task.case(task.headline)
        variant = read_variant(KERNEL)
        for configuration, us in drawn():
            knobs = {name: configuration[name] for name in variant.knob_values}
            text = variant.with_knobs(knobs).text
            found = prepare(task, text, chip=A4000, arch="sm_86", cases=[case], static_rules=False)
            if isinstance(found, PrepareFailure):
                raise SystemExit(f"{knobs}: {found.reason}")
            lines.append(
                {"knobs": knobs, "us": us, **counted(device, found.programs[case.name], {"x": image}).fields()}
            )
            say(f"{len(lines)} of {POINTS}")
    write(FILE, lines)
    say(public())
    return 0


def _task(root: Path) -> Any:
    folder = root / "kernels" / "convolution"
    (folder / "ladder").mkdir(parents=True)
    (folder / "task.yaml").write_text(_TASK, encoding="utf-8")
    (folder / "reference.py").write_text(_REFERENCE, encoding="utf-8")
    return load_task(root, "convolution")


if __name__ == "__main__":
    sys.exit(main())
