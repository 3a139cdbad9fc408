"""Windows that read something else outside of the tensor: the nearest end, or the other one."""

from __future__ import annotations

from pathlib import Path

import pytest
from long_cases import long
from rule_children import TASKS, built, passes
from task_folders import written_task

from evo.evaluate.session import EvaluationSession
from evo.spec.task import Task

REFERENCE = """
import numpy as np

def inputs(c, rng):
    return {"img": rng.standard_normal((c["H"], c["W"]), dtype=np.float32)}

def expected(inputs):
    img = inputs["img"].astype(np.float64)
    wide = np.pad(img, 2, mode="MODE")
    h, w = img.shape
    return {"out": sum(wide[i : i + h, j : j + w] for i in range(5) for j in range(5)) - CENTRE * img}
"""
KERNEL = """// evo: task   border
// evo: launch border grid (ceil_div(W, 32), ceil_div(H, 8)) block (32, 8)
__device__ int kept(int v, int low, int high) { return v < low ? low : (v > high ? high : v); }
extern "C" __global__ void border(const float* img, float* out, int H, int W) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= W || y >= H) return;
    float sum = 0.0f;
    for (int i = -2; i <= 2; i++)
        for (int j = -2; j <= 2; j++) {
            int row = ROW;
            int col = COL;
            sum += img[row * W + col];
        }
    out[y * W + x] = sum - CENTRE;
}
"""
OWN = ("img[y * W + x]", "1")
NEAREST = ("edge", "min(max(y + i, 0), H - 1)", "max(0, min(x + j, W - 1))")
HELPER = ("edge", "kept(y + i, 0, H - 1)", "kept(x + j, 0, W - 1)")
CHOICE = ("edge", "y + i >= H ? H - 1 : y + i < 0 ? 0 : y + i", "kept(x + j, 0, W - 1)")
AROUND = ("wrap", "(y + i + H) % H", "(x + j + W) % W")
NOTHING = ("0.0f", "0")


def task_of(folder: Path, mode: str, centre: str) -> Task:
    declared = (TASKS / "tile_halo" / "task.yaml").read_text(encoding="utf-8").replace("tile_halo", "border")
    return written_task(folder, declared, REFERENCE.replace("MODE", mode).replace("CENTRE", centre))


def text_of(row: str, col: str, centre: str) -> str:
    return KERNEL.replace("ROW", row).replace("COL", col).replace("CENTRE", centre)


@pytest.mark.parametrize(
    ("border", "centre"),
    [
        (NEAREST, OWN),
        long(HELPER, NOTHING),
        long(CHOICE, OWN),
        long(AROUND, OWN),
    ],
    ids=["nearest", "helper", "choice", "around"],
)
def test_a_tile_holds_what_is_read_outside(
    bench: EvaluationSession, border: tuple[str, str, str], centre: tuple[str, str], tmp_path: Path
) -> None:
    mode, row, col = border
    task = task_of(tmp_path, mode, centre[1])
    found = built("tile_halo", text_of(row, col, centre[0]), task)
    assert found
    assert passes(bench, task, found[-1])


@pytest.mark.parametrize(
    ("row", "col", "centre"),
    [
        ("min(max(y + i, 1), H - 1)", "x + j", OWN[0]),  # the first row itself is read elsewhere
        ("min(max(y + i, 0), H - 1)", "min(max(x + j, 0), y)", "0.0f"),  # an end of each thread's own
        ("min(max(y + i * x, 0), H - 1)", "x", "0.0f"),
    ],
)
def test_other_places_are_no_border(row: str, col: str, centre: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, "edge", "0")
    assert not built("tile_halo", text_of(row, col, centre), task)
