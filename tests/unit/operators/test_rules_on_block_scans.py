"""Running sums that a block finds in shared memory: whatever the steps are, shuffles find the same sums."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import built, changed, passes, task_of
from task_folders import written_task

from evo.evaluate.session import EvaluationSession
from evo.spec.variant import Variant

TASK = task_of("block_scans")
RULE = "block_scans"
HEAD = """// evo: task block_scans
// evo: launch running grid (R) block (256) shared 0
extern "C" __global__ void running(const float* x, float* y, int R) {
"""
TWO_BUFFERS = """    __shared__ float temp[512];
    int thid = threadIdx.x;
    int pout = 0, pin = 1;
    float mine = x[blockIdx.x * blockDim.x + thid];
    temp[thid] = mine;
    __syncthreads();
    for (int offset = 1; offset < 256; offset <<= 1) {
        pout = 1 - pout;
        pin = 1 - pout;
        if (thid >= offset)
            temp[pout * 256 + thid] = temp[pin * 256 + thid] + temp[pin * 256 + thid - offset];
        else
            temp[pout * 256 + thid] = temp[pin * 256 + thid];
        __syncthreads();
    }
    y[blockIdx.x * 256 + thid] = temp[pout * 256 + thid];
}
"""
GUARDED = """    __shared__ float s[256];
    unsigned int t = threadIdx.x;
    if (blockIdx.x < R) s[t] = x[blockIdx.x * 256 + t];
    else s[t] = 0.0f;
    int d = 1;
    while (d < 256) {
        __syncthreads();
        float v = 0;
        if (t >= d) v = s[t - d];
        __syncthreads();
        s[t] = s[t] + v;
        d = 2 * d;
    }
    __syncthreads();
    if (blockIdx.x < R) y[blockIdx.x * 256 + t] = s[t];
}
"""
BEFORE = ("= temp[pout * 256 + thid];\n}", "= (thid > 0 ? temp[pout * 256 + thid - 1] : 0.0f) + mine;\n}")
UP_AND_DOWN = """    __shared__ float temp[256];
    const int t = threadIdx.x, base = blockIdx.x * 256;
    int offset = 1;
    const float a = x[base + 2 * t], b = x[base + 2 * t + 1];
    temp[2 * t] = a;
    temp[2 * t + 1] = b;
    for (int d = 128; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) temp[offset * (2 * t + 2) - 1] += temp[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) temp[255] = 0;
    for (int d = 1; d < 256; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            float kept = temp[offset * (2 * t + 1) - 1];
            temp[offset * (2 * t + 1) - 1] = temp[offset * (2 * t + 2) - 1];
            temp[offset * (2 * t + 2) - 1] += kept;
        }
    }
    __syncthreads();
    y[base + 2 * t] = temp[2 * t] + a;
    y[base + 2 * t + 1] = temp[2 * t + 1] + b;
}
"""
OF_ALL = """    __shared__ float s[256];
    const int t = threadIdx.x;
    s[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        const float v = t >= d ? s[t - d] : 0.0f;
        __syncthreads();
        s[t] += v;
        __syncthreads();
    }
    y[blockIdx.x * 256 + t] = t == 255 ? s[255] : s[255] - (s[255] - s[t]);
}
"""
ROWS = """    __shared__ float buf[2][256];
    const int t = threadIdx.x;
    int now = 0;
    buf[0][t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int d = 1; d < 256; d <<= 1) {
        buf[1 - now][t] = t >= d ? buf[now][t] + buf[now][t - d] : buf[now][t];
        now = 1 - now;
        __syncthreads();
    }
    y[blockIdx.x * 256 + t] = buf[now][t];
}
"""
POINTERS = """    __shared__ float one[256], other[256];
    float *from = one, *to = other;
    const int t = threadIdx.x;
    from[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int d = 1; d < 256; d <<= 1) {
        to[t] = t >= d ? from[t] + from[t - d] : from[t];
        __syncthreads();
        float* kept = from;
        from = to;
        to = kept;
    }
    y[blockIdx.x * 256 + t] = from[t];
}
"""
IN_A_VARIABLE = """    __shared__ float s[256];
    const int t = threadIdx.x;
    float v = x[blockIdx.x * 256 + t];
    s[t] = v;
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        float a = 0.0f;
        if (t >= d) a = s[t - d];
        __syncthreads();
        v += a;
        s[t] = v;
        __syncthreads();
    }
    y[blockIdx.x * 256 + t] = v;
}
"""
APART = """    __shared__ float s[256];
    const int t = threadIdx.x, first = blockIdx.x * 256;
    s[t] = x[first + t];
    s[t + 128] = x[first + t + 128];
    for (int d = 1; d <= 128; d *= 2) {
        __syncthreads();
        const int i = (t + 1) * 2 * d - 1;
        if (i < 256) s[i] += s[i - d];
    }
    for (int d = 64; d > 0; d /= 2) {
        __syncthreads();
        const int i = (t + 1) * 2 * d - 1;
        if (i + d < 256) s[i + d] += s[i];
    }
    __syncthreads();
    y[first + t] = s[t];
    y[first + t + 128] = s[t + 128];
}
"""
MAXIMA = """// evo: task best_so_far
// evo: launch running grid (R) block (256) shared 0
extern "C" __global__ void running(const float* x, float* y, int R) {
    __shared__ float s[256];
    const int t = threadIdx.x;
    s[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        float v = -INFINITY;
        if (t >= d) v = s[t - d];
        __syncthreads();
        s[t] = fmaxf(s[t], v);
        __syncthreads();
    }
    y[blockIdx.x * 256 + t] = s[t];
}
"""
MAXIMA_TASK = """name: best_so_far
axes: {R: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [R, 256]}
  - {name: y, role: out, dtype: float32, shape: [R, 256]}
tolerance: {rtol: 1e-6, atol: 0.0, rival_error_factor: 1, because: comparisons alone}
check: [{R: 2}]
bench: {b: {R: 512}}
work: {}
"""
MAXIMA_REFERENCE = """import numpy as np


def inputs(case, rng):
    return {"x": rng.standard_normal((case["R"], 256), dtype=np.float32)}


def expected(inputs):
    return {"y": np.maximum.accumulate(inputs["x"].astype(np.float64), axis=1)}
"""


def children(body: str, *changes: tuple[str, str]) -> list[Variant]:
    return built(RULE, changed(HEAD + body, *changes), TASK)


@pytest.mark.parametrize(
    ("body", "changes", "count"),
    [
        pytest.param(TWO_BUFFERS, (), 4, id="two buffers"),
        pytest.param(TWO_BUFFERS, (("__shared__ float temp[512]", "extern __shared__ float temp[]"),
                                   ("shared 0", "shared (2048)")), 4, id="sized by the launch", marks=pytest.mark.long),
        pytest.param(GUARDED, (), 4, id="a while loop and two stores", marks=pytest.mark.long),
        pytest.param(GUARDED, (('extern "C"', 'constexpr int SIZE = 256;\nextern "C"'), ("d < 256", "d < SIZE")), 4,
                     id="a constant", marks=pytest.mark.long),
        pytest.param(UP_AND_DOWN, (("block (256)", "block (128)"),), 1, id="up and down a tree"),
        pytest.param(OF_ALL, (), 4, id="what all come to", marks=pytest.mark.long),
        pytest.param(TWO_BUFFERS, (BEFORE,), 1, id="of the one before", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_shuffles_find_the_same_sums(
    bench: EvaluationSession, body: str, changes: tuple[tuple[str, str], ...], count: int
) -> None:
    found = children(body, *changes)
    assert len(found) == count
    for child in found[:2]:
        assert child.text.count("__syncthreads") == 1
        assert passes(bench, TASK, child)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("offset < 256", "offset < 128"), id="a step too few"),
        pytest.param(("- offset]", "- offset] * 0.5f"), id="weighted"),
        pytest.param(("thid >= offset", "thid > offset"), id="one thread less"),
        pytest.param(("y[blockIdx.x * 256 + thid] =", "temp[0] = thid; y[blockIdx.x * 256 + thid] ="), id="used again"),
        pytest.param(("temp[pout * 256 + thid];\n}", "temp[pout * 256 + 255 - thid];\n}"), id="backwards"),
        pytest.param(("block (256)", "block (R)"), id="a block of no known size"),
    ],
)
def test_other_steps_stay_as_they_are(change: tuple[str, str]) -> None:
    assert not children(TWO_BUFFERS, change)


def test_what_the_steps_leave_in_a_variable_stays() -> None:
    change = ("temp[pout * 256 + thid];\n}", "temp[pout * 256 + thid] + pout;\n}")
    assert not [child for child in children(TWO_BUFFERS, change) if "pout" in child.text]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((("int pout = 0", "float last = 0;\n    int pout = 0"),
                      ("= temp[pout * 256 + thid];\n}", "= last + temp[pout * 256 + thid];\n    last = mine;\n}")),
                     id="a variable that the end changes"),
        pytest.param((('extern "C"', "#define THREAD threadIdx.x\nextern \"C\""), ("y[blockIdx.x * 256 + thid]",
                      "y[blockIdx.x * 256 + THREAD]")), id="a macro that looks at its thread"),
        pytest.param((('extern "C"', "#define AT(b) (b * 256 + thid)\nextern \"C\""), ("y[blockIdx.x * 256 + thid]",
                      "y[AT(blockIdx.x)]")), id="a macro with a variable of the thread"),
    ],
)  # fmt: skip
def test_what_is_not_of_one_element_alone_stays_with_its_thread(changes: tuple[tuple[str, str], ...]) -> None:
    (child,) = children(TWO_BUFFERS, *changes)
    assert child.launches[0].block[0].text == "256"


def test_another_name_for_the_array_hides_what_is_done_to_it() -> None:
    assert not children(TWO_BUFFERS, ("    temp[thid] = mine;", "    float* other = temp;\n    temp[thid] = mine;"))


@pytest.mark.parametrize(
    ("body", "changes", "barriers"),
    [
        pytest.param(ROWS, (), 1, id="rows of an array", marks=pytest.mark.long),
        pytest.param(POINTERS, (), 1, id="pointers that change places"),
        pytest.param(IN_A_VARIABLE, (), 1, id="sums kept in a variable"),
        pytest.param(APART, (("block (256)", "block (128)"),), 3, id="elements half a row apart"),
    ],
)
def test_sums_are_found_wherever_the_steps_keep_them(
    bench: EvaluationSession, body: str, changes: tuple[tuple[str, str], ...], barriers: int
) -> None:
    first, *_ = children(body, *changes)
    assert first.text.count("__syncthreads") == barriers
    assert passes(bench, TASK, first)


@pytest.mark.parametrize(
    ("body", "change"),
    [
        pytest.param(ROWS, ("1 - now;\n", "now;\n"), id="always the same row"),
        pytest.param(POINTERS, ("to = kept;", "to = from;"), id="one pointer for both"),
        pytest.param(IN_A_VARIABLE, ("= v;\n}", "= v + a;\n}"), id="a name that is not known behind the steps"),
        pytest.param(IN_A_VARIABLE, ("= v;\n}", "= v;\n    v = 0;\n}"), id="a variable that is set again"),
        pytest.param(IN_A_VARIABLE, ("v += a;\n", "v += 2 * a;\n"), id="a variable with other sums"),
    ],
)
def test_other_sums_stay_wherever_they_are_kept(body: str, change: tuple[str, str]) -> None:
    assert not children(body, change)


def test_elements_apart_that_are_no_running_sums_stay() -> None:
    assert not children(APART, ("block (256)", "block (128)"), ("d = 64", "d = 32"))


def test_running_maxima_and_minima_are_found_too(bench: EvaluationSession, tmp_path: Path) -> None:
    task = written_task(tmp_path, MAXIMA_TASK, MAXIMA_REFERENCE)
    first, *_ = built(RULE, MAXIMA, task)
    assert "fmaxf" in first.text
    assert passes(bench, task, first)
    minima = changed(MAXIMA, ("fmaxf", "fminf"), ("= -INFINITY", "= INFINITY"))
    assert "before = INFINITY" in built(RULE, minima, task)[0].text


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("fmaxf(s[t], v)", "fmaxf(s[t], v) + 1.0f"), id="a number more for each step"),
        pytest.param(("fmaxf(s[t], v)", "v > s[t] ? v : s[t]"), id="a comparison, which no set shows"),
        pytest.param(("= -INFINITY", "= 0.0f"), id="none below zero"),
        pytest.param(("d < 256", "d < 128"), id="a step too few"),
    ],
)
def test_what_is_no_running_maximum_stays(tmp_path: Path, change: tuple[str, str]) -> None:
    task = written_task(tmp_path, MAXIMA_TASK, MAXIMA_REFERENCE)
    assert built(RULE, changed(MAXIMA, change), task) == []


@pytest.mark.parametrize("body", [ROWS, POINTERS, IN_A_VARIABLE])
def test_a_block_keeps_its_size_where_each_thread_stores_what_those_before_it_come_to(body: str) -> None:
    assert built("block_size", changed(HEAD + body, ("grid (R)", "grid (ceil_div(R * 256, 256))")), TASK) == []


BUTTERFLIES = """    __shared__ float s[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) s[i] = x[blockIdx.x * 256 + i];
    int t = threadIdx.x;
    for (int d = 128; d > 0; d >>= 1) {
        int at = 2 * t - (t & (d - 1));
        __syncthreads();
        float a = s[at], b = s[at + d];
        s[at] = a + b;
        s[at + d] = a - b;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) y[blockIdx.x * 256 + i] = s[i];
}
"""


def test_a_block_keeps_its_size_where_each_thread_has_a_pair_of_what_all_fill_in_turns() -> None:
    """Of a Walsh transform: half as many threads would leave half of the pairs as they are."""
    text = changed(HEAD + BUTTERFLIES, ("block (256)", "block (128)"))
    assert built("block_size", text, TASK) == []
    shared_out = changed(
        text,
        ("    int t = threadIdx.x;\n", ""),
        ("        int at", "        for (int t = threadIdx.x; t < 128; t += blockDim.x) {\n        int at"),
        ("= a - b;\n", "= a - b;\n        }\n"),
        ("        __syncthreads();\n        float", "        float"),
        ("d >>= 1) {\n", "d >>= 1) {\n        __syncthreads();\n"),
    )
    assert built("block_size", shared_out, TASK)
