"""What a thread comes to over its own share of a loop's turns is joined with others' before the share may change."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import built, changed, passes

from evo.evaluate.pipeline import EvaluationSession
from evo.spec.task import read_task
from evo.spec.variant import Variant

KERNELS = Path(__file__).parents[3] / "kernels"
SOFTMAX = read_task(KERNELS / "softmax")
ROWS = """\
// evo: task softmax
// evo: launch rows grid (ROWS) block (32) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void rows(const __half* x, __half* y, int rows, int cols) {
    const __half* in = x + (long long)blockIdx.x * cols;
    __half* out = y + (long long)blockIdx.x * cols;
    const int lane = threadIdx.x;
    float largest = -INFINITY;
    for (int i = lane; i < cols; i += 32) {
        largest = fmaxf(largest, __half2float(in[i]));
    }
    JOIN
    float sum = 0.0f;
    for (int i = lane; i < cols; i += 32) {
        sum += expf(__half2float(in[i]) - largest);
    }
    for (int step = 16; step > 0; step /= 2) {
        OTHERS
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    }
    for (int i = lane; i < cols; i += 32) out[i] = __float2half(expf(__half2float(in[i]) - largest) / sum);
}
"""
AT_ONCE = (
    "for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));"
)
LATER = (
    "const float theirs = __shfl_xor_sync(0xffffffffu, largest, step), both = fmaxf(largest, theirs);\n"
    "        sum *= largest == both ? 1.0f : expf(largest - both);\n        largest = both;"
)
BY_CALL = "largest = whole(largest);"
CALLED = f"__device__ float whole(float largest) {{\n    {AT_ONCE}\n    return largest;\n}}\n" + 'extern "C"'


def widened(text: str) -> list[Variant]:
    """What becomes of the loop for the maximum, in each child that changes that one."""
    narrow = "for (int i = lane; i < cols; i += 32) {\n        largest"
    return [child for child in built("wide_access", text, SOFTMAX) if narrow not in child.text]


@pytest.mark.parametrize(
    "changes",
    [[("JOIN", AT_ONCE), ("OTHERS\n", "\n")], [("JOIN", BY_CALL), ("OTHERS\n", "\n"), ('extern "C"', CALLED)]],
    ids=["a shuffle", "a function that shuffles"],
)
def test_a_total_that_is_joined_first_comes_of_any_share(
    changes: list[tuple[str, str]], bench: EvaluationSession
) -> None:
    found = widened(changed(ROWS, *changes))
    assert found
    assert passes(bench, SOFTMAX, found[0])


def test_a_threads_own_maximum_is_of_the_elements_that_it_adds_up() -> None:
    assert not widened(changed(ROWS, ("JOIN", ""), ("OTHERS", LATER)))


def test_a_launch_line_that_divides_uses_its_knob_and_what_unrolled_the_loop_goes(bench: EvaluationSession) -> None:
    task = read_task(KERNELS / "rope")
    children = built("spread_loop", (task.folder / "ladder" / "00_scalar.cu").read_text(), task)
    (child,) = (each for each in children if "D // 2, THREADS" in each.text)
    assert [knob.name for knob in child.knobs] == ["THREADS"]
    assert "#pragma" not in child.text
    assert passes(bench, task, child)
