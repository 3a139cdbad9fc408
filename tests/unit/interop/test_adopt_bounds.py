"""`evo adopt`: how far indices go, which sizes are timed, and what a given reference may ask of the original."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from adopted_files import adopted_text
from long_cases import long
from refusals import refused
from simulator_session import simulator
from tiny import git

from evo.device import parse_device
from evo.device.remote_device import RemoteSimulator
from evo.errors import TaskInvalid
from evo.evaluate.pipeline import Job, evaluate
from evo.interop.adopt import Adopted
from evo.results import Status
from evo.search.loop import evolve
from evo.search.settings import Settings
from evo.spec.reference import load_reference
from evo.spec.task import Case, Task, read_task

CROSS_ENTROPY = """
__global__ void cross_entropy(const float* logits, const int* labels, float* losses, int batch, int classes) {
    const int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch) return;
    const float* row = logits + idx * classes;
    float top = row[0], sum = 0.f;
    for (int j = 1; j < classes; ++j) top = fmaxf(top, row[j]);
    for (int j = 0; j < classes; ++j) sum += expf(row[j] - top);
    losses[idx] = logf(sum) - (row[labels[idx]] - top);
}
int main() {
    const int batch = 512, classes = 1000;
    float *logits, *losses; int* labels;
    cudaMalloc(&logits, sizeof(float) * batch * classes);
    cudaMalloc(&labels, sizeof(int) * batch);
    cudaMalloc(&losses, sizeof(float) * batch);
    cross_entropy<<<(batch + 127) / 128, 128>>>(logits, labels, losses, batch, classes);
}
"""
GATHER = """
__global__ void gather(float* out, const int* ids, const float* table, int N, int D) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N * D) out[i] = table[ids[i / D] * D + i % D];
}
int main() {
    int N = 256, D = 64, V = 3000;
    float *out, *table; int* ids;
    cudaMalloc(&out, N * D * sizeof(float));
    cudaMalloc(&ids, N * sizeof(int));
    cudaMalloc(&table, V * D * sizeof(float));
    gather<<<(N * D + 255) / 256, 256>>>(out, ids, table, N, D);
}
"""
ROWS = """
__global__ void sums(const float* in, float* out, int n, int d) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float running = 0.0f;
    for (int j = 0; j < d; ++j) {
        out[row * d + j] = running;
        running += in[row * d + j];
    }
}
int main() {
    int n = 1024, d = 512;
    float *in, *out;
    cudaMalloc(&in, n * d * sizeof(float));
    cudaMalloc(&out, n * d * sizeof(float));
    sums<<<(n + 127) / 128, 128>>>(in, out, n, d);
}
"""
GREY = """
#define CHANNELS 3
__global__ void grey(unsigned char* out, const unsigned char* in, int width, int height) {
    int col = threadIdx.x + blockIdx.x * blockDim.x, row = threadIdx.y + blockIdx.y * blockDim.y;
    if (col < width && row < height) {
        int place = row * width + col, first = place * CHANNELS;
        out[place] = 0.21f * in[first] + 0.71f * in[first + 1] + 0.07f * in[first + 2];
    }
}
int main() {
    int width = 640, height = 480;
    size_t n = (size_t)width * height;
    unsigned char *in, *out;
    cudaMalloc(&in, n * CHANNELS);
    cudaMalloc(&out, n);
    grey<<<dim3((width + 15) / 16, (height + 15) / 16), dim3(16, 16)>>>(out, in, width, height);
}
"""
TOTAL = """
__global__ void total(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(out, x[i] * x[i]);
}
int main() {
    int n = 1 << 19;
    float *x, *out;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&out, sizeof(float));
    cudaMemset(out, 0, sizeof(float));
    total<<<(n + 255) / 256, 256>>>(x, out, n);
}
"""
SHARED = """
__global__ void norms(const float* x, float* out, int n, int d) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0.0f;
    __syncthreads();
    for (int j = threadIdx.x; j < d; j += blockDim.x) atomicAdd(&sum, x[blockIdx.x * d + j] * x[blockIdx.x * d + j]);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = sqrtf(sum);
}
int main() {
    int n = 512, d = 96;
    float *x, *out;
    cudaMalloc(&x, n * d * sizeof(float));
    cudaMalloc(&out, n * sizeof(float));
    norms<<<n, 64>>>(x, out, n, d);
}
"""
SUMS = """
__global__ void sums(const float* in, float* out, int n, int d) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float running = 0.0f;
    for (int j = 0; j < d; ++j) running += in[row * d + j];
    out[row] = running;
}
int main() {
    int n = 1024, d = 512;
    float *in, *out;
    cudaMalloc(&in, n * d * sizeof(float));
    cudaMalloc(&out, n * sizeof(float));
    sums<<<(n + 127) / 128, 128>>>(in, out, n, d);
}
"""


def adopted(folder: Path, text: str, reference: str | None = None, **axes: int) -> tuple[Adopted, Task]:
    found = adopted_text(folder, text, reference=reference, **axes)
    return found, read_task(found.folder)


def most_of(task: Task, name: str, case: Case) -> int:
    """The largest element of an input."""
    with closing(load_reference(task)) as reference:
        return int(reference.inputs(case, 3)[name].max())


@pytest.mark.long
def test_an_index_along_a_row_goes_as_far_as_the_row(tmp_path):
    found, task = adopted(tmp_path, CROSS_ENTROPY)
    assert all(most_of(task, "labels", case) < case.axes["classes"] for case in task.check)
    assert any(most_of(task, "labels", case) >= case.axes["batch"] for case in task.check)
    assert not any(row.what == "sizes" for row in found.rows)
    assert any(case.axes["classes"] > case.axes["batch"] for case in task.check)
    assert any(case.axes["classes"] < case.axes["batch"] for case in task.check)


@pytest.mark.long
def test_a_table_is_not_made_longer_to_have_more_work(tmp_path):
    found, task = adopted(tmp_path, GATHER)
    assert all(most_of(task, "ids", case) < case.axes["V"] for case in task.check)
    (timed,) = task.bench
    assert timed.axes["V"] == 3000
    assert timed.axes["N"] > 256
    assert any(f"N={timed.axes['N']}" in note and "file's N=256" in note for note in found.notes)


def test_a_size_that_was_asked_for_is_the_one_that_is_timed(tmp_path):
    _, task = adopted(tmp_path, GATHER, N=128, D=32, V=500)
    (timed,) = task.bench
    assert timed.axes == {"N": 128, "D": 32, "V": 500}


def test_special_values_that_the_original_treats_otherwise_than_the_reference_are_undefined(tmp_path):
    _, task = adopted(tmp_path, ROWS, "out = cumsum(in_, axis=1) - in_")
    (tensor,) = task.inputs
    assert tensor.specials is not None
    assert (tensor.specials.infinities, tensor.specials.nan) == ("undefined", "undefined")
    assert tensor.specials.zeros == "reference"


@pytest.mark.long
def test_an_original_that_rounds_more_than_numpy_sets_the_budget(tmp_path):
    _, task = adopted(tmp_path, SUMS, "out = in_.sum(axis=1)")
    assert (task.folder / "original.cu").is_file()
    with closing(load_reference(task)) as reference:
        found = reference.expectation(task.check[0], 3)
    assert found.trusted is not None
    one_by_one = np.cumsum(found.inputs["in_"].astype(np.float32), axis=1, dtype=np.float32)[:, -1]
    assert (found.trusted["out"] == one_by_one).all()


def test_an_extent_that_is_compiled_in_has_its_place(tmp_path):
    _, task = adopted(tmp_path, GREY)
    shapes = {tensor.name: [part.text for part in tensor.shape] for tensor in task.tensors}
    assert shapes["in_"] == ["height", "width", "3"]  # a short one is part of the kernel


@pytest.mark.parametrize("text", [TOTAL, long(SHARED)])
def test_an_original_passes_at_the_size_that_is_timed_and_is_held_to_no_other_inputs_there(tmp_path, monkeypatch, text):
    asked = []
    extremes = RemoteSimulator.output_extremes
    monkeypatch.setattr(RemoteSimulator, "output_extremes", lambda *a, **k: asked.append(1) or extremes(*a, **k))
    found, task = adopted(tmp_path, text)
    with simulator() as session:
        job = Job(task=task, text=found.variant.read_text(), path="given.cu", seed=3, rival=None)
        assert evaluate(job, session).status is Status.CORRECT
    assert not asked  # it is its own reference, and what it computes is right by definition


def test_a_start_that_is_wrong_is_said_to_be_where_there_is_no_ladder(tmp_path):
    found, _ = adopted(tmp_path, GREY)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "given")
    wrong = tmp_path / "wrong.cu"
    wrong.write_text(found.variant.read_text().replace("0.71f", "0.72f"))
    with refused(TaskInvalid, "bad-start"):
        evolve(Settings(task="given", device=parse_device("sim:l4"), start=wrong), tmp_path, lambda _: None)
