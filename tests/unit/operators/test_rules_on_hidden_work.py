"""What a kernel's text hides: functions that are atomics, a thread's own matrix in a tensor, blocks of one thread,
limits that are products, and several of these at once."""

from __future__ import annotations

import pytest
from rule_children import BY_NAME, DATA, built, changed, passes, task_of, tidy

from evo.evaluate.session import EvaluationSession
from evo.operators.rules.operator import integers_of
from evo.spec.task import Task, read_task
from evo.spec.variant import parse_variant


def idiom(name: str) -> tuple[Task, str]:
    folder = DATA / "idioms" / name
    return read_task(folder), (folder / "ladder" / "00_thread.cu").read_text()


ABSMAX, CAS = idiom("atomic_functions")
FUNCTION = CAS[CAS.index("__device__") : CAS.index('extern "C"')]
SIGNS = """__device__ void atomicMaxFloat(float* a, float v) {
    if (v >= 0.0f) atomicMax((int*)a, __float_as_int(v));
    else atomicMin((unsigned int*)a, __float_as_uint(v));
}
"""
EARLY = """__device__ __forceinline__ float atomicMaxFloat(float* const a, const float v) {
    if (*a >= v) return *a;
    int* const bits = reinterpret_cast<int*>(a);
    int old = *bits;
    while (v > __int_as_float(old)) {
        const int seen = old;
        if ((old = atomicCAS(bits, seen, __float_as_int(v))) == seen) break;
    }
    return __int_as_float(old);
}
"""


@pytest.mark.parametrize("function", [FUNCTION, SIGNS, EARLY], ids=["swap", "signs", "early"])
def test_a_function_that_leaves_the_larger_one_is_an_atomic(function: str) -> None:
    (first, *_) = tidy("whole_sum", changed(CAS, (FUNCTION, function)), ABSMAX)
    assert "atomicMaxFloat(&result[0], sum)" in first.text
    assert "sum = fmax(sum, __shfl_xor_sync(" in first.text
    (private,) = tidy("private_copy", changed(CAS, (FUNCTION, function)), ABSMAX)
    assert "own = fmaxf(own, fabsf(x[i]));" in private.text


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("fmaxf(val,", "2.0f * fmaxf(val,"), id="twice the larger one"),
        pytest.param(("fmaxf(val, __int_as_float(assumed))", "val * __int_as_float(assumed)"), id="product"),
        pytest.param(("do {", "*address = val; do {"), id="plain store"),
        pytest.param(("return __int", "address[1] = val; return __int"), id="another element"),
    ],
)
def test_a_function_that_does_anything_else_is_none(change: tuple[str, str]) -> None:
    text = changed(CAS, change)
    assert not built("whole_sum", text, ABSMAX)
    assert not built("private_copy", text, ABSMAX)


def test_the_larger_one_of_all_is_right(bench: EvaluationSession) -> None:
    (first, *_) = built("whole_sum", CAS, ABSMAX)
    assert passes(bench, ABSMAX, first)


def test_a_blocks_sums_may_be_at_places_that_data_says() -> None:
    text = """\
// evo: task private_copy
// evo: scratch counts int32 [256] init=zero
// evo: launch count grid (ceil_div(N, 256)) block (256)
// evo: launch copy_out grid (1) block (256)
extern "C" __global__ void count(const unsigned char *data, int *bins, int *counts, int n)
{
    __shared__ unsigned own[64];
    if (threadIdx.x < 64) own[threadIdx.x] = 0;
    __syncthreads();
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&own[data[i] >> 2], 1);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}
extern "C" __global__ void copy_out(const unsigned char *data, int *bins, int *counts, int n)
{
    bins[threadIdx.x] = counts[threadIdx.x];
}
"""
    (child,) = tidy("block_walks", text, task_of("private_copy"))
    assert "const unsigned i = block * blockDim.x + threadIdx.x;" in child.text


MATRICES, FLAT = idiom("own_region")
POINTED = changed(
    FLAT,
    ("A[tid * 25 + ", "m["),
    ("    if (tid < B) {\n", "    if (tid < B) {\n        float* m = A + tid * 25;\n"),
)  # fmt: skip


@pytest.mark.parametrize("text", [FLAT, POINTED], ids=["flat", "pointer"])
def test_a_threads_own_matrix_in_a_tensor_is_an_array_within_the_guard(text: str, bench: EvaluationSession) -> None:
    (child,) = tidy("unroll_registers", text, MATRICES)
    guarded = child.text[child.text.index("if (tid < B) {") :]
    assert guarded.count("_all[e]") == 2
    assert child.text.count("[e]") == guarded.count("[e]")
    assert passes(bench, MATRICES, child)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((("tid * 25", "tid * 20"),), id="others have a part of it"),
        pytest.param((("for (int k", "if (A[tid * 25 + 0] == 0.0f) return;\n for (int k"),), id="it may leave"),
        pytest.param((("i * 5 + k] /=", "i * 5 + k + tid % 2] /="),), id="a place of the thread's"),
    ],
)
def test_what_is_not_a_threads_own_stays_in_memory(changes: tuple[tuple[str, str], ...]) -> None:
    assert not any("_all[e]" in child.text for child in built("unroll_registers", changed(FLAT, *changes), MATRICES))


CHANNELS, NORM = idiom("channel_norm")


def test_blocks_of_one_thread_become_the_lanes_of_a_walk(bench: EvaluationSession) -> None:
    """And the product that limits a loop stays one where the loop is written anew."""
    (child, *_) = tidy("row_blocks", NORM, CHANNELS)
    assert "k < h * w; k += LANES" in child.text
    assert passes(bench, CHANNELS, child)


def test_blocks_of_one_thread_are_joined() -> None:
    text = """\
// evo: launch normalize grid (N * C * H * W) block (1) shared 0
extern "C" __global__ void normalize(const float *x, float *mean, float *var, float *y, int n, int c, int h, int w)
{
    y[blockIdx.x] = (x[blockIdx.x] - mean[blockIdx.x / (h * w) % c]) * 0.5f;
}
"""
    first, *_ = tidy("pack_blocks", text, CHANNELS)
    assert "grid (ceil_div(N * C * H * W, 256)) block (256)" in first.text
    assert "const int item = blockIdx.x * blockDim.x + threadIdx.x;" in first.text
    assert "if (item >= ((n * c) * h) * w) return;" in first.text


DILATED, CONVOLUTION = idiom("dilated")


def test_outputs_that_share_the_image_come_first() -> None:
    boxes, *_ = built("unflatten", CONVOLUTION, DILATED)
    axes = integers_of(DILATED)
    places = BY_NAME["coarsen"].applications(boxes, axes=axes, task=DILATED)
    first = min(places, key=lambda place: place.rank)
    assert first.arguments["index"] == "k"


def test_an_index_that_a_macro_uses_is_not_made_several() -> None:
    text = changed(CONVOLUTION, ("#define D 2", "#define D 2\n#define HERE output[idx]"), ("output[idx] =", "HERE ="))
    assert not [child for child in built("coarsen", text, DILATED) if "HERE" in child.text]


GRID_LOOP = """\
// evo: launch k grid (240) block (256) shared 0
typedef float real;
extern "C" __global__ void k(const real* x, real* y, int N) {
    size_t n = (size_t)N;
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    for (;;) {
        if (i >= n) break;
        y[i] = x[i] * 2.0f;
        i += gridDim.x * blockDim.x;
    }
}
"""


def test_a_loop_over_the_grid_that_a_test_ends_in_types_by_other_names() -> None:
    task = read_task(DATA / "rules" / "whole_sum")
    child, *_ = built("neighbours", GRID_LOOP, task)
    assert parse_variant(child.text).launches[0].grid[0].text != "240"
