"""Running sums that a block finds in shared memory: whatever the steps are, shuffles find the same sums."""

from __future__ import annotations

import pytest
from rule_children import built, changed, passes, task_of

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
