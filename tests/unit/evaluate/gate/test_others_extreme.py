"""Conditions of one tensor that do harm beside another one only: large or special numbers; and sums in any order."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from long_cases import long
from task_folders import written_task

from evo.evaluate import gate
from evo.evaluate.gate.other_orders import other_orders
from evo.evaluate.prepare import Prepared
from evo.evaluate.session import EvaluationSession
from evo.results import CaseCheck, Check, Status
from evo.spec.task import Task, read_task

TASK = """\
name: blend
description: Two numbers, weighted by the exponentials of two others.
axes: {ROWS: int}
tensors:
  - {name: x, role: in, dtype: float16, shape: [ROWS, 2]}
  - {name: w, role: in, dtype: float16, shape: [ROWS, 2], specials: true}
  - {name: y, role: out, dtype: float16, shape: [ROWS]}
specials:
  w: reference
tolerance: {rtol: 1e-2, atol: 1e-3, rival_error_factor: 4, because: half precision}
check:
  - {name: whole, ROWS: 64}
  - {name: ragged, ROWS: 37}
bench:
  tall: {ROWS: 900}
work: {flop: 8 * ROWS, bytes: 10 * ROWS}
"""
REFERENCE = """\
import numpy as np


def inputs(case, rng):
    return {name: rng.standard_normal((case["ROWS"], 2)).astype(np.float16) for name in "xw"}


def expected(inputs):
    x, w = (inputs[name].astype(np.float64) for name in "xw")
    weights = np.exp(x - x.max(1, keepdims=True))
    return {"y": (weights * w).sum(1) / weights.sum(1)}
"""
KERNEL = """\
// evo: task blend
// evo: launch blend grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void blend(const __half* x, const __half* w, __half* y, int rows) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    const float first = __half2float(x[2 * row]), second = __half2float(x[2 * row + 1]);
    const float v = __half2float(w[2 * row]), u = __half2float(w[2 * row + 1]);
    const float most = MOST;
    const float a = expf(first - most), b = expf(second - most);
    y[row] = __float2half(RESULT);
}
"""
MOST, RESULT = "fmaxf(first, second)", "(a * v + b * u) / (a + b)"


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return written_task(tmp_path_factory.mktemp("kernels"), TASK, REFERENCE)


def _pursued(bench: EvaluationSession, task: Task, most: str, result: str) -> Check | None:
    prepared = bench.prepare(task, KERNEL.replace("MOST", most).replace("RESULT", result))
    assert isinstance(prepared, Prepared)
    reference = bench.reference(task)
    return gate.pursued(task, prepared.programs, lambda _: {}, reference, bench.checker, 5, [], gate.Looked())


def test_a_score_just_below_a_threshold_meets_large_values(bench: EvaluationSession, task: Task) -> None:
    assert _pursued(bench, task, MOST, RESULT) is None
    assert _pursued(bench, task, "second > first + 2.0f ? second : first", RESULT) is None
    found = _pursued(bench, task, "second > first + 80.0f ? second : first", RESULT)
    assert found is not None
    assert found.status is Status.WRONG


def test_what_is_left_out_meets_special_values(bench: EvaluationSession, task: Task) -> None:
    found = _pursued(bench, task, MOST, "first - second > 30.0f ? v : (a * v + b * u) / (a + b)")
    assert found is not None
    assert found.status is Status.WRONG


SUMS = """\
name: sums
description: The sum of each row.
axes: {ROWS: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [ROWS, 256]}
  - {name: y, role: out, dtype: float32, shape: [ROWS]}
tolerance: {rtol: 1e-4, atol: 1e-4, rival_error_factor: 4, because: sums of 256}
check:
  - {name: one, ROWS: 1}
  - {name: some, ROWS: 40}
bench:
  tall: {ROWS: 900}
work: {flop: 256 * ROWS, bytes: 1028 * ROWS}
"""
SUMS_REFERENCE = """\
import numpy as np


def inputs(case, rng):
    return {"x": rng.standard_normal((case["ROWS"], 256), dtype=np.float32)}


def expected(inputs):
    return {"y": inputs["x"].astype(np.float64).sum(1)}
"""
SUM = """\
// evo: task sums
// evo: launch sum grid (ROWS) block (256) shared 0
extern "C" __global__ void sum(const float* x, float* y, int rows) {
    __shared__ float parts[8];
    const float own = x[blockIdx.x * 256 + threadIdx.x];
    float value = own;
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    if (threadIdx.x < 8) parts[threadIdx.x] = 0.0f;
    __syncthreads();
    const bool first = threadIdx.x % 32 == 0;
    ADD;
    __syncthreads();
    float total = 0.0f;
    for (int i = 0; i < 8; ++i) total += parts[i];
    if (threadIdx.x == 0) y[blockIdx.x] = total;
}
"""


TAKEN = (  # warps take the next 32 elements from a counter, and keep the sum of what they got
    "__shared__ int next; if (threadIdx.x == 0) next = 0; __syncthreads(); float mine = 0.0f;"
    " for (;;) { int tile = 0; if (first) tile = atomicAdd(&next, 1); tile = __shfl_sync(~0u, tile, 0);"
    " if (tile >= 8) break; mine += x[blockIdx.x * 256 + tile * 32 + threadIdx.x % 32]; }"
    " for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(~0u, mine, step);"
    " if (first) parts[threadIdx.x / 32] = mine"
)


def _found(bench: EvaluationSession, task: Task, prepared: Prepared, seed: int) -> CaseCheck | None:
    """The first case that comes out otherwise in another order."""
    bind = partial(bench.bound, task, prepared)
    found = other_orders(task, prepared.programs, bind, bench.reference(task), bench.checker, seed, share=gate.THOROUGH)
    return None if found is None else found[1]


def test_warps_of_a_block_add_in_any_order(bench: EvaluationSession, tmp_path: Path) -> None:
    task = written_task(tmp_path, SUMS, SUMS_REFERENCE)
    statuses = []
    for add in (
        "if (first) parts[threadIdx.x / 32] = value",
        "if (first) atomicAdd(parts + threadIdx.x / 32, value)",
        "if (first) atomicAdd(parts, value)",
        "atomicAdd(parts + threadIdx.x / 32, own * (first || true))",
        TAKEN,
    ):
        prepared = bench.prepare(task, SUM.replace("ADD", add))
        assert isinstance(prepared, Prepared)
        found = _found(bench, task, prepared, 5)
        statuses.append(None if found is None else found.status)
    assert statuses == [None, None, Status.UNSTABLE, Status.UNSTABLE, Status.UNSTABLE]


@pytest.mark.parametrize("seed", [1, 3])
def test_an_order_that_drawn_numbers_hide_shows_under_others(seed: int, bench: EvaluationSession) -> None:
    """Sums of like numbers differ by less than a half tells."""
    root = Path(__file__).parents[4]
    task = read_task(root / "kernels" / "layernorm")
    text = (root / "evo" / "audit" / "redteam" / "attacks" / "layernorm" / "22_warps_add_in_turn.cu").read_text()
    prepared = bench.prepare(task, text)
    assert isinstance(prepared, Prepared)
    found = _found(bench, task, prepared, seed)
    assert found is not None
    assert found.status is Status.UNSTABLE


IN_DOUBLE = """\
// evo: task sums
// evo: scratch words uint64 [ROWS] init=zero
// evo: launch sum grid (ROWS, 4) block (64) shared 0
// evo: launch store grid (ceil_div(ROWS, 64)) block (64) shared 0
__device__ void swap(unsigned long long* word, double value) {
    unsigned long long seen = *(volatile unsigned long long*)word, old;
    while ((old = atomicCAS(word, seen, __double_as_longlong(value + __longlong_as_double(seen)))) != seen) seen = old;
}
extern "C" __global__ void sum(const float* x, float* y, unsigned long long* words, int rows) {
    double all = x[blockIdx.x * 256 + blockIdx.y * 64 + threadIdx.x];
    for (int step = 16; step > 0; step /= 2) all += __shfl_xor_sync(~0u, all, step);
    const bool first = threadIdx.x % 32 == 0;
    ADD;
}
extern "C" __global__ void store(const float* x, float* y, unsigned long long* words, int rows) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row < rows) y[row] = (float)RESULT;
}
"""


PARTS = (  # of a row, by eight lanes each
    "__shared__ double parts[8]; __shared__ int next; if (threadIdx.x < 8 || first) parts[threadIdx.x % 8] = next = 0;"
    " __syncthreads(); if (blockIdx.y) return; double own = 0.0;"
    " for (int i = threadIdx.x; i < 256; i += 64) own += x[blockIdx.x * 256 + i];"
    " for (int step = 4; step > 0; step /= 2) own += __shfl_xor_sync(~0u, own, step);"
)


@pytest.mark.parametrize(
    ("add", "result", "status"),
    [
        ("if (first) atomicAdd((double*)words + blockIdx.x, all)", "__longlong_as_double(words[row])", Status.UNSTABLE),
        ("if (first) swap(words + blockIdx.x, all)", "__longlong_as_double(words[row])", Status.UNSTABLE),
        long(
            "__shared__ double part; if (threadIdx.x == 0) part = 0.0; __syncthreads(); if (blockIdx.y) return;"
            " for (int i = threadIdx.x; i < 256; i += 64) atomicAdd(&part, (double)x[blockIdx.x * 256 + i]);"
            " __syncthreads(); if (first && threadIdx.x == 0) words[blockIdx.x] = __double_as_longlong(part)",
            "__longlong_as_double(words[row])",
            Status.UNSTABLE,
        ),
        (  # plain additions under a lock
            f"{PARTS} if (threadIdx.x % 8 == 0) {{ while (atomicCAS(&next, 0, 1)) __nanosleep(9);"
            " __threadfence_block(); volatile double* sink = parts; *sink = *sink + own; __threadfence_block();"
            " atomicExch(&next, 0); } __syncthreads();"
            " if (threadIdx.x == 0) words[blockIdx.x] = __double_as_longlong(parts[0])",
            "__longlong_as_double(words[row])",
            Status.UNSTABLE,
        ),
        (  # places in the order of arrival
            f"{PARTS} if (threadIdx.x % 8 == 0) parts[atomicAdd(&next, 1)] = own; __syncthreads();"
            " if (threadIdx.x == 0) { for (int i = 1; i < 8; ++i) parts[0] += parts[i];"
            " words[blockIdx.x] = __double_as_longlong(parts[0]); }",
            "__longlong_as_double(words[row])",
            Status.UNSTABLE,
        ),
        (  # places of their own, taken in any order
            f"{PARTS} if (threadIdx.x % 8 == 0) {{ atomicAdd(&next, 1); parts[threadIdx.x / 8] = own; }}"
            " __syncthreads(); if (threadIdx.x == 0) { for (int i = 1; i < next; ++i) parts[0] += parts[i];"
            " words[blockIdx.x] = __double_as_longlong(parts[0]); }",
            "__longlong_as_double(words[row])",
            None,
        ),
        (
            "if (first) atomicAdd(words + blockIdx.x, (unsigned long long)__double2ll_rn(all * 0x1p40))",
            "((double)(long long)words[row] * 0x1p-40)",
            None,
        ),
        (
            "if (first && atomicCAS(words + blockIdx.x, 0ull, 1ull) == 0ull)"
            " { all = 0;"
            " for (int i = 0; i < 256; ++i) all += x[blockIdx.x * 256 + i];"
            " atomicExch(words + blockIdx.x, (unsigned long long)__double_as_longlong(all)); }",
            "__longlong_as_double(words[row])",
            None,
        ),
    ],
)
def test_sums_in_double_show_their_order_though_rounding_hides_it(
    add: str, result: str, status: Status | None, bench: EvaluationSession, tmp_path: Path
) -> None:
    task = written_task(tmp_path, SUMS, SUMS_REFERENCE)
    prepared = bench.prepare(task, IN_DOUBLE.replace("ADD", add).replace("RESULT", result))
    assert isinstance(prepared, Prepared)
    found = _found(bench, task, prepared, 5)
    assert (None if found is None else found.status) is status


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ("fabsf(part - 1.0f) < 1e-4f", Status.WRONG),  # of squares: a row that may be normalised already
        long("part > 1e6f && part < 1.001e6f", Status.WRONG),
        ("fabsf(part - 1.0f) < 1e-4f && part < 0.0f", None),
    ],
)
def test_a_band_of_what_many_elements_make_is_approached(
    condition: str, status: Status | None, bench: EvaluationSession, tmp_path: Path
) -> None:
    task = written_task(tmp_path, SUMS, SUMS_REFERENCE)
    text = SUM.replace("float value = own;", "float value = own, part = own * own;")
    text = text.replace("step);", "step), part += __shfl_xor_sync(~0u, part, step);", 1)
    text = text.replace("ADD;", "if (first) parts[threadIdx.x / 32] = value;")
    text = text.replace("y[blockIdx.x] = total;", f"y[blockIdx.x] = {condition} ? 2.0f * total : total;")
    prepared = bench.prepare(task, text)
    assert isinstance(prepared, Prepared)
    reference = bench.reference(task)
    found = gate.pursued(task, prepared.programs, lambda _: {}, reference, bench.checker, 5, [], gate.Looked())
    assert (None if found is None else found.status) is status
