"""Inputs found through what a kernel compares, and warps whose lanes are apart."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from long_cases import long
from task_folders import written_task

from evo.audit.redteam import task_folder
from evo.evaluate import gate
from evo.evaluate.gate.other_machines import all_altered
from evo.evaluate.gate.other_machines import apart as lanes_apart
from evo.evaluate.gate.run_cases import Step, check_case
from evo.evaluate.prepare import Prepared
from evo.evaluate.session import EvaluationSession
from evo.results import CaseCheck, Check, Fault, FaultKind, Status
from evo.spec.task import Task, read_task

ROOT = Path(__file__).resolve().parents[4]
TASK = """\
name: picked
description: Each element plus the number of its column, which is dealt.
axes: {ROWS: int, COLS: int}
tensors:
  - {name: x, role: in, dtype: float16, shape: [ROWS, COLS]}
  - {name: order, role: in, dtype: int32, shape: [COLS], low: 0, high: COLS - 1}
  - {name: y, role: out, dtype: float32, shape: [ROWS, COLS]}
tolerance: {rtol: 1e-5, atol: 1e-5, rival_error_factor: 2, because: one rounding}
check:
  - {name: whole, ROWS: 8, COLS: 64}
  - {name: ragged, ROWS: 5, COLS: 37}
  - {name: one, ROWS: 1, COLS: 1}
bench:
  tall: {ROWS: 900, COLS: 64}
work: {flop: ROWS * COLS, bytes: 6 * ROWS * COLS}
"""
REFERENCE = """\
import numpy as np


def inputs(case, rng):
    rows, cols = case["ROWS"], case["COLS"]
    return {
        "x": rng.standard_normal((rows, cols)).astype(np.float16),
        "order": rng.integers(0, cols, cols).astype(np.int32),
    }


def expected(inputs):
    return {"y": inputs["x"].astype(np.float64) + inputs["order"]}
"""
KERNEL = """\
// evo: task   picked
// evo: launch pick grid (ROWS) block (64) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void pick(const __half* x, const int* order, float* y, int rows, int cols) {
    const __half* in = x + blockIdx.x * cols;
    BEFORE
    for (int i = threadIdx.x; i < cols; i += 64) y[blockIdx.x * cols + i] = __half2float(in[i]) + VALUE;
}
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return written_task(tmp_path_factory.mktemp("kernels"), TASK, REFERENCE)


def prepared(bench: EvaluationSession, task: Task, before: str, value: str) -> Prepared:
    found = bench.prepare(task, KERNEL.replace("BEFORE", before).replace("VALUE", value))
    assert isinstance(found, Prepared), found
    return found


def pursued(bench: EvaluationSession, task: Task, variant: Prepared, seed: int = 6) -> Check | None:
    looked = gate.Looked({case.name for case in task.check}, set())
    return gate.pursued(task, variant.programs, lambda _: {}, bench.reference(task), bench.checker, seed, (), looked)


@pytest.mark.parametrize(
    ("before", "value"),
    [
        # Several elements of a row, one after the other.
        (
            "bool zero = cols > 8; for (int i = 0; zero && i < 6; ++i) zero = __half2float(in[i]) == 0.0f;",
            "(zero ? 0 : order[i])",
        ),
        # Each beside the one before, which the loop hands on; and such that one has to be right for the next.
        (
            "bool grows = cols > 20; float last = 0.0f; for (int i = 1; grows && i < 16; ++i) {"
            " const float now = __half2float(in[i]) - __half2float(in[i - 1]);"
            " grows = now * last <= 0.0f && fabsf(now) > fabsf(last); last = now; }",
            "(grows ? 0 : order[i])",
        ),
        (
            "bool halves = cols > 8; for (int i = 0; halves && i < 3; ++i)"
            " halves = order[i] == 2 * order[i + 1] && order[i + 1] > 1;",
            "(halves ? 0 : order[i])",
        ),
        # Numbers that are compared with a size.
        (
            "const bool turned = cols > 8 && order[0] == cols - 1 && order[2] == cols - 3 && order[cols - 1] == 0;",
            "(turned ? cols - 1 - i : order[i])",
        ),
        # Elements of one input with those of another place.
        (
            "bool same = rows > 4 && cols > 8; for (int r = 1; same && r < 4; ++r)"
            " same = __half2float(x[r * cols]) == __half2float(x[r * cols + 3]);",
            "(same ? order[0] : order[i])",
        ),
        # Bits of an element, and of several that are merged.
        (
            "const unsigned short* raw = reinterpret_cast<const unsigned short*>(in);"
            " const bool three = cols > 8 && __popc(raw[0] & 0x3ff) == 3 && (raw[1] >> 2 & 0x1f) == 11;",
            "(three ? 0 : order[i])",
        ),
        (
            "const bool powers = cols > 8 && (order[0] & (order[0] - 1)) == 0 && order[0] > 2"
            " && ((order[1] ^ 5) | (order[3] ^ 9)) == 0;",
            "(powers ? 0 : order[i])",
        ),
        # Conditions that are merged before the branch: products, sums, extrema, counts.
        (
            "const int last = cols > 8 ? 7 : 0;"
            " const bool some = (__half2float(in[0]) * __half2float(in[last]) == 1.0f)"
            " & (fminf(__half2float(in[last / 2]), __half2float(in[last / 3])) == 4.0f) & (cols > 8);",
            "(some ? 0 : order[i])",
        ),
        long(
            "int fives = 0;\n#pragma unroll 1\n"
            "for (int i = 0; i < 20 && cols > 40; ++i) fives += __half2float(in[2 * i]) == 5.0f;",
            "(fives == 20 ? 0 : order[i])",
        ),
        # How many elements are such, beside how many are others.
        (
            "__shared__ int n[2]; if (threadIdx.x < 2) n[threadIdx.x] = 0; __syncthreads();"
            " const float own = threadIdx.x < cols ? __half2float(in[threadIdx.x]) : 0.0f;"
            " if (fabsf(own) > 1.5f) atomicAdd(&n[own > 0.0f], 1); __syncthreads();",
            "(n[0] == n[1] && n[1] > 12 ? 0 : order[i])",
        ),
        # What no predicate names: masks of two halves, sums that are cut off, a bit, a choice.
        (
            "const __half2 some = __halves2half2(in[0], in[cols / 2]);"
            " const unsigned same = __heq2_mask(some, __floats2half2_rn(2.5f, -7.0f));",
            "order[i] * (1 - (int)(same & same >> 16 & 1))",
        ),
        (
            "const float d = __half2float(in[0]) * 3.0f + __half2float(in[cols / 2]) - 21.375f;",
            "order[i] * (1.0f - __saturatef(1.0f - d * d * 1e6f))",
        ),
        (
            "const unsigned u = __half_as_ushort(in[cols / 2]) ^ 0x4519u;",
            "order[i] * (1 - (int)((u - 1u) >> 31))",
        ),
        (
            'float kept; asm("slct.f32.f32 %0, 0f00000000, 0f3F800000, %1;"'
            ' : "=f"(kept) : "f"(__half2float(in[0]) + __half2float(in[cols / 2]) * 2.0f - 300.0f));',
            "order[i] * kept",
        ),
        # What follows from elements in another form: set at two places, as floats in shared memory, two in a register.
        (
            "float d = 9.0f; if (cols > 8) d = __half2float(in[1]) * 3.0f + __half2float(in[2]) - 21.375f;",
            "(d > -0.001f && d < 0.001f ? 0 : order[i])",
        ),
        (
            "__shared__ float cells[2]; const int half = cols / 2;"
            " if (threadIdx.x < 2) cells[threadIdx.x] = __half2float(in[threadIdx.x * half]);"
            " __syncthreads(); const float d = cells[0] * 3.0f + cells[1] - 21.375f;",
            "(d > -0.001f && d < 0.001f ? 0 : order[i])",
        ),
        (
            "const unsigned two = cols % 2 ? 0 : reinterpret_cast<const unsigned*>(in)[0];",
            "(((two & 0xffff) ^ two >> 16) == 0x2a5 && (two & 15) == 9 ? 0 : order[i])",
        ),
        # One order of nine elements: parts of a conjunction are mended one by one, and each may spoil another.
        long(
            "const int at[] = {3, 1, 7, 0, 2, 5, 8, 6, 4}; bool rare = cols > 8;\n#pragma unroll\n"
            "for (int i = 1; i < 9; ++i) rare &= __half2float(in[at[i - 1] % cols]) < __half2float(in[at[i] % cols]);",
            "(rare ? 0 : order[i])",
        ),
        # A vote of the whole block.
        (
            "const bool low = __syncthreads_or(__half2float(in[threadIdx.x % cols / 2]) > -3.0f || cols < 9) == 0;",
            "(low ? 0 : order[i])",
        ),
    ],
)
def test_a_kernel_that_concludes_from_a_few_elements_meets_them(
    bench: EvaluationSession, task: Task, before: str, value: str
) -> None:
    found = pursued(bench, task, prepared(bench, task, before, value))
    assert found is not None
    assert found.status is Status.WRONG
    assert found.cases[0].inputs == ("pursued",)


@pytest.mark.parametrize(
    ("before", "value", "seeds"),
    [
        ("", "order[i]", (1, 2, 3)),
        ("const bool small = __half2float(in[0]) < 0.001f;", "(small ? order[i] : 1 * order[i])", (1, 2, 3)),
        pytest.param(  # seconds each
            "",
            "(order[i] == 0 && __half2float(in[i]) == 0.25f ? 0.0f : (float)order[i])",
            (1,),
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_kernel_that_is_right_on_both_sides_of_its_comparisons_passes(
    bench: EvaluationSession, task: Task, before: str, value: str, seeds: tuple[int, ...]
) -> None:
    variant = prepared(bench, task, before, value)
    assert all(pursued(bench, task, variant, seed) is None for seed in seeds)


SUMMED = """\
// evo: task   picked
// evo: launch pick grid (ROWS) block (64) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void pick(const __half* x, const int* order, float* y, int rows, int cols) {
    __shared__ int taken;
    if (threadIdx.x == 0) taken = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < cols; i += 64) {
        BODY
        y[blockIdx.x * cols + i] = __half2float(x[blockIdx.x * cols + i]) + order[i] + (place < 0 ? 1 : 0);
    }
}
"""
AGGREGATED = """const unsigned mask = __activemask();
        const int lane = threadIdx.x % 32, leader = __ffs(mask) - 1;
        int place = 0;
        if (lane == leader) place = atomicAdd(&taken, __popc(mask));
        place = __shfl_sync(mask, place, leader);"""
HOPED = """int place = i + taken;
        for (int step = 16; step > 0; step /= 2) place += __shfl_xor_sync(__activemask(), place, step);"""


def apart(bench: EvaluationSession, task: Task, body: str) -> tuple[CaseCheck, object, tuple[Fault, ...]]:
    variant = bench.prepare(task, SUMMED.replace("BODY", body))
    assert isinstance(variant, Prepared), variant
    other = all_altered(variant.programs, lanes_apart)
    assert other
    case = next(case for case in task.check if case.name == "whole")
    return check_case(task, other, bench.reference(task).expectation(case, 3), Step(case, bench.checker), {})


def test_lanes_that_serve_whoever_is_active_may_be_apart(bench: EvaluationSession, task: Task) -> None:
    row, _, faults = apart(bench, task, AGGREGATED)
    assert not faults
    assert row.status is Status.CORRECT


def test_lanes_that_take_the_active_ones_for_all_are_seen_apart(bench: EvaluationSession, task: Task) -> None:
    _, _, faults = apart(bench, task, HOPED)
    assert [fault.kind for fault in faults][:1] == [FaultKind.WARP_SYNC]


@pytest.mark.parametrize(("hit", "is_wrong"), [(1.0, True), (0.0, False)])
def test_a_condition_of_a_function_is_solved_at_each_place_that_calls_it(
    hit: float, is_wrong: bool, bench: EvaluationSession, task: Task
) -> None:
    """Each copy has registers of its own."""
    head = f"__device__ __noinline__ float hit(float v, float at) {{ return v == at ? {hit}f : 0.0f; }}\n"
    value = "order[i] + hit(__half2float(in[i]), 7.25f) + hit(__half2float(in[cols - 1]), 40.0f + blockIdx.x)"
    variant = bench.prepare(
        task, KERNEL.replace("extern", head + "extern").replace("BEFORE", "").replace("VALUE", value)
    )
    assert isinstance(variant, Prepared), variant
    assert (pursued(bench, task, variant) is not None) == is_wrong


HASHED = """// evo: task gather_rows
// evo: launch gather grid (N) block (64) shared 0
extern "C" __global__ void gather(const int* ids, const float* table, const float* bias, float* o, int n, int, int d) {
    const unsigned id = ids[blockIdx.x];
    const float on = (id * 2654435761u) >> 19 == 4321u ? 0.0f : 1.0f;
    for (int i = threadIdx.x; i < d; i += 64) o[blockIdx.x * d + i] = table[(long long)id * d + i] + on * bias[i];
}
"""


def test_a_hash_of_an_id_is_met_where_ids_have_most_values(bench: EvaluationSession) -> None:
    """One id of 8,192 has it, and no slope leads there."""
    task = read_task(task_folder("gather_rows", ROOT / "kernels"))
    prepared = bench.prepare(task, HASHED)
    assert isinstance(prepared, Prepared)
    wide = gate.widest_cases(task, gate.usual_limits(task, gate.THOROUGH))
    assert max(case.axes["V"] for case in wide) > 8000
    bind = partial(bench.bound, task, prepared)
    looked, reference = gate.Looked(), bench.reference(task)
    found = gate.pursued(task, prepared.programs, bind, reference, bench.checker, 2, wide, looked)
    assert found is not None
    assert found.status is Status.WRONG


TOTALS = """\
name: totals
description: Sums of rows.
axes: {ROWS: int, COLS: int}
tensors:
  - {name: x, role: in, dtype: int32, shape: [ROWS, COLS], low: -1000, high: 100000}
  - {name: y, role: out, dtype: int64, shape: [ROWS]}
tolerance: {rtol: 0, atol: 0, rival_error_factor: 2, because: sums of whole numbers are exact}
check:
  - {name: few, ROWS: 5, COLS: 300}
  - {name: short, ROWS: 3, COLS: 7}
bench:
  few: {ROWS: 5, COLS: 300}
"""
ADDED = """\
// evo: task   totals
// evo: launch totals grid (ROWS) block (32) shared 0
extern "C" __global__ void totals(const int* x, long long* y, int rows, int cols) {
    long long sum = 0;
    int least = 0;
    for (int i = threadIdx.x; i < cols; i += 32) {
        sum += x[blockIdx.x * cols + i];
        least = min(least, x[blockIdx.x * cols + i]);
    }
    for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
    least = __reduce_min_sync(0xffffffffu, least);
    if (threadIdx.x == 0) y[blockIdx.x] = ANSWER;
}
"""


@pytest.mark.parametrize(
    ("answer", "is_wrong"),
    [
        ("sum == 21234567 ? 0 : sum", True),
        ("sum == 21234567 ? 21234567 : sum + (least < -1000)", False),  # no input is out of its stated range
    ],
)
def test_a_sum_of_whole_numbers_meets_the_one_that_it_is_compared_with(
    bench: EvaluationSession, tmp_path_factory: pytest.TempPathFactory, answer: str, is_wrong: bool
) -> None:
    task = written_task(
        tmp_path_factory.mktemp("totals"),
        TOTALS,
        "def inputs(case, rng):\n"
        '    return {"x": rng.integers(-1000, 100001, (case["ROWS"], case["COLS"]), dtype="int32")}\n'
        "def expected(inputs):\n"
        '    return {"y": inputs["x"].astype("int64").sum(axis=1)}\n',
    )
    variant = bench.prepare(task, ADDED.replace("ANSWER", answer))
    assert isinstance(variant, Prepared), variant
    assert (pursued(bench, task, variant) is not None) is is_wrong


BYTES = """\
    for (int i = threadIdx.x; i < cols; i += 32) sum += x[blockIdx.x * cols + i];
    for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
    if (sum == 0 && x[blockIdx.x * cols] == NUMBER) sum = 1;
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
"""


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("number", "is_wrong"), [("-77", True), ("128", False)])
def test_a_row_that_adds_up_to_nothing_meets_a_condition_on_one_of_its_bytes(
    bench: EvaluationSession, tmp_path: Path, number: str, is_wrong: bool, seed: int
) -> None:
    """Whatever one element becomes, others make up for it."""
    ranged = TOTALS.replace("dtype: int32", "dtype: int8").replace("low: -1000, high: 100000", "low: -128, high: 127")
    task = written_task(
        tmp_path,
        ranged,
        "def inputs(case, rng):\n"
        '    return {"x": rng.integers(-128, 128, (case["ROWS"], case["COLS"]), dtype="int8")}\n'
        "def expected(inputs):\n"
        '    return {"y": inputs["x"].astype("int64").sum(axis=1)}\n',
    )
    head = ADDED.partition("    int least")[0].replace("const int* x", "const signed char* x")
    variant = bench.prepare(task, head + BYTES.replace("NUMBER", number))
    assert isinstance(variant, Prepared), variant
    assert (pursued(bench, task, variant, seed) is not None) is is_wrong


def test_a_square_that_is_its_own_transpose_is_met(bench: EvaluationSession, task: Task) -> None:
    before = (
        "bool same = rows > 4 && cols > 8;\n"
        "for (int i = 0; i < 5; ++i) for (int j = 0; j < i; ++j)"
        " same = same && __half2float(x[i * cols + j]) == __half2float(x[j * cols + i]);\n"
        "same = same && __half2float(x[1]) != __half2float(x[2]);"
    )
    assert pursued(bench, task, prepared(bench, task, before, "(same ? 0 : order[i])")) is not None


HISTOGRAM = """\
name: histogram
description: How often each number comes.
axes: {N: int, B: int}
tensors:
  - {name: x, role: in, dtype: int32, shape: [N], low: 0, high: B - 1}
  - {name: h, role: out, dtype: int32, shape: [B]}
tolerance: {rtol: 0, atol: 0, rival_error_factor: 2, because: counts are exact}
check:
  - {name: many, N: 700, B: 23}
  - {name: few, N: 37, B: 41}
bench:
  many: {N: 700, B: 23}
"""
COUNTED = """\
// evo: task   histogram
// evo: launch histogram grid (1) block (64) shared 4 * B
extern "C" __global__ void histogram(const int* x, int* h, int n, int bins) {
    extern __shared__ int count[];
    for (int b = threadIdx.x; b < bins; b += 64) count[b] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 64) atomicAdd(count + x[i], 1);
    __syncthreads();
    const bool is_such = bins > 8 && CONDITION;
    for (int b = threadIdx.x; b < bins; b += 64) h[b] = count[b] + (is_such && b == 0);
}
"""


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "condition",
    [
        "count[3] > 60 && count[3] == count[5]",
        "count[2] > 15 && count[5] == 2 * count[2] && count[6] == 2 * count[5]",
    ],
)
def test_counts_that_stand_in_a_relation_are_met_whatever_the_seed(
    bench: EvaluationSession, tmp_path_factory: pytest.TempPathFactory, condition: str, seed: int
) -> None:
    task = written_task(
        tmp_path_factory.mktemp("histogram"),
        HISTOGRAM,
        "import numpy as np\n"
        "def inputs(case, rng):\n"
        '    return {"x": rng.integers(0, case["B"], case["N"], dtype=np.int32)}\n'
        "def expected(inputs, case):\n"
        '    return {"h": np.bincount(inputs["x"], minlength=case["B"])}\n',
    )
    variant = bench.prepare(task, COUNTED.replace("CONDITION", condition))
    assert isinstance(variant, Prepared), variant
    assert pursued(bench, task, variant, seed) is not None
