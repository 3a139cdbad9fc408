"""`evo adopt`: what is chance in an original is not held against others, and rounding more than it still is."""

from __future__ import annotations

from pathlib import Path

import pytest
from adopted_files import adopted_text
from long_cases import long
from simulator_session import simulator

from evo.errors import TaskInvalid
from evo.evaluate.pipeline import Job, evaluate
from evo.results import Evaluation, MismatchKind, Status
from evo.spec.declared_values import REFERENCE, UNDEFINED
from evo.spec.task import Task, read_task

WELFORD = """
__global__ void means(const float* x, float* mean, float* var, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float m = 0.f, s = 0.f;
    for (int j = 0; j < cols; ++j) {
        float d = x[row * cols + j] - m;
        m += d / (j + 1);
        s += d * (x[row * cols + j] - m);
    }
    mean[row] = m;
    var[row] = s / cols;
}
int main() {
    int rows = 32, cols = 96;
    float *x, *mean, *var;
    cudaMalloc(&x, rows * cols * sizeof(float));
    cudaMalloc(&mean, rows * sizeof(float));
    cudaMalloc(&var, rows * sizeof(float));
    means<<<(rows + 63) / 64, 64>>>(x, mean, var, rows, cols);
}
"""
TWO_PASSES = """
#include <cuda_fp16.h>
// evo: task given
// evo: launch means grid (ceil_div(rows, 64)) block (64) shared 0 args (x, mean, var, rows, cols)
extern "C" __global__ void means(const float* x, float* mean, float* var, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    SUM part[32], spread[32], rest[32];
    for (int k = 0; k < 32; ++k) part[k] = spread[k] = rest[k] = 0.f;
    for (int j = 0; j < cols; ++j) part[j % 32] += SUM(VALUE(x[row * cols + j]));
    for (int k = 16; k; k /= 2)
        for (int i = 0; i < k; ++i) part[i] += part[i + k];
    float m = float(part[0]) / cols;
    for (int j = 0; j < cols; ++j) {
        float d = float(VALUE(x[row * cols + j])) - m;
        rest[j % 32] += SUM(d);
        spread[j % 32] += SUM(d * d);
    }
    for (int k = 16; k; k /= 2)
        for (int i = 0; i < k; ++i) spread[i] += spread[i + k], rest[i] += rest[i + k];
    float left = float(rest[0]) / cols;
    mean[row] = m + left;
    var[row] = float(spread[0]) / cols - left * left;
}
"""
BLUR = """
__global__ void blur(const float* image, const float* taps, float* out, int h, int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= w) return;
    float sum = 0.f;
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) {
            int v = y + i - 1, u = x + j - 1;
            if (v >= 0 && v < h && u >= 0 && u < w) sum += image[v * w + u] * taps[i * 3 + j];
        }
    out[y * w + x] = sum;
}
int main() {
    int h = 96, w = 128;
    float *image, *taps, *out;
    cudaMalloc(&image, h * w * sizeof(float));
    cudaMalloc(&taps, 9 * sizeof(float));
    cudaMalloc(&out, h * w * sizeof(float));
    blur<<<dim3((w + 63) / 64, h), 64>>>(image, taps, out, h, w);
}
"""
MAXIMUM = """
__global__ void top(const float* x, float* out, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float best = x[row * cols];
    for (int j = 1; j < cols; ++j) if (x[row * cols + j] > best) best = x[row * cols + j];
    out[row] = best;
}
int main() {
    int rows = 32, cols = 96;
    float *x, *out;
    cudaMalloc(&x, rows * cols * sizeof(float));
    cudaMalloc(&out, rows * sizeof(float));
    top<<<(rows + 63) / 64, 64>>>(x, out, rows, cols);
}
"""
SUMS = MAXIMUM.replace("best = x[row * cols];", "best = 0.f;").replace(
    "if (x[row * cols + j] > best) best = x[row * cols + j]", "best += x[row * cols + j]"
)


def adopted(folder: Path, text: str) -> Task:
    return read_task(adopted_text(folder, text).folder)


def tried(task: Task, text: str) -> Evaluation:
    with simulator() as session:
        return evaluate(Job(task=task, text=text, path="given.cu", seed=3, rival=None), session)


def rewritten(total: str, value: str) -> str:
    return TWO_PASSES.replace("SUM", total).replace("VALUE", value)


@pytest.mark.parametrize(
    ("text", "undefined"),
    [
        (WELFORD, {"x": {"infinities"}}),  # an infinity in the last place gives one, elsewhere NaN
        long(BLUR, {"taps": {"infinities", "nan"}}),  # times the zeros around the image
        (MAXIMUM, {"x": {"nan"}}),  # stays in the first place, is dropped elsewhere
        (SUMS, {}),
    ],
)
def test_special_values_mean_nothing_where_an_accident_decides(tmp_path, text, undefined):
    task = adopted(tmp_path, text)
    found = {
        tensor.name: {kind for kind in ("zeros", "infinities", "nan") if getattr(tensor.specials, kind) == UNDEFINED}
        for tensor in task.inputs
        if tensor.specials is not None
    }
    assert found == undefined
    assert all(t.specials.zeros == REFERENCE for t in task.inputs if t.specials is not None)


@pytest.mark.parametrize(
    ("total", "value", "status"),
    [
        long("float", "float", Status.CORRECT),
        ("__half", "float", Status.WRONG),  # adds up in half precision
        long("float", "__float2half", Status.WRONG),  # takes its inputs for halves
    ],
)
def test_another_order_passes_and_less_precision_does_not(tmp_path, total, value, status):
    """Welford's update is exact on equal values, and its mean more accurate than a sum: that is no measure."""
    task = adopted(tmp_path, WELFORD)
    found = tried(task, rewritten(total, value))
    assert found.status is status, found.reason


def test_a_refusal_by_special_values_names_the_place_that_says_what_they_mean(tmp_path):
    task = adopted(tmp_path, SUMS)
    text = (task.folder / "original.cu").read_text()
    found = tried(
        task, text.replace("best += x[row * cols + j]", "best += fminf(fmaxf(x[row * cols + j], -3e38f), 3e38f)")
    )
    assert found.check is not None
    (row,) = [case for case in found.check.cases if case.mismatch is not None]
    assert row.mismatch.kind is MismatchKind.NOT_FINITE
    assert "`specials:` in kernels/given/task.yaml" in found.reason


def test_a_failure_tells_the_sizes_and_tensors_that_were_assumed(tmp_path):
    nan = MAXIMUM.replace("out[row] = best", "out[row] = (best - best) / (rows - rows)")
    with pytest.raises(TaskInvalid) as failure:
        adopted(tmp_path, nan)
    assert {"cols=96", "x:in:float32[rows,cols]"} <= {part.strip(",;") for part in str(failure.value.hint).split()}
