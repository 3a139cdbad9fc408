"""A kernel without its data, run at many sizes at once: outcomes of conditions that no arithmetic tells."""

from __future__ import annotations

import numpy as np
import pytest
from harness import nvrtc

from evo.sim.rehearsal import rehearsal_of
from evo.sim.rehearsed_runs import RehearsedKernel
from evo.spec.chips import CHIPS

SIZES = np.asarray([1, 7, 31, 40, 64, 100, 777, 1000, 2049])


def ptx_of(code: str) -> str:
    return nvrtc(
        'extern "C" __global__ void k(const float* x, float* y, int n) {\n'
        "    __shared__ int told[32];\n    const int lane = threadIdx.x;\n"
        f"    told[lane] = 0;\n    __syncthreads();\n{code}\n    y[lane] = bad ? 0.0f : x[lane];\n}}\n"
    )


def told(code: str) -> list[tuple[bool, set[int]]]:
    """Of each point and outcome: whether threads differ, and the sizes that have it."""
    ptx, ones = ptx_of(code), np.ones((3, len(SIZES)), np.int64)
    kernel, split = (RehearsedKernel(ptx, "k", frozenset((0, 1)), CHIPS["l4"], threads=count) for count in (1, 2))
    bits, same = (each.outcomes({2: SIZES}, ones, ones * [[32], [1], [1]], 10.0) for each in (kernel, split))
    assert (bits == same).all()
    points = kernel.rehearsal.points
    return [
        (point.of_threads, set(SIZES[bits[:, at] & bit != 0].tolist()))
        for at, point in enumerate(points)
        for bit in (1, 2)
    ]


def _walks(n: int) -> bool:
    """Whether 111 steps of the walk 3 m + 1, m / 2 lead from n to 1: what a loop counts, and no register is made of."""
    steps = 0
    while n > 1:
        n, steps = 3 * n + 1 if n & 1 else n // 2, steps + 1
    return steps == 111


@pytest.mark.parametrize(
    ("code", "right"),
    [
        ("const bool bad = __shfl_sync(~0u, n % 61, 3) == 39;", lambda n: n % 61 == 39),
        ("const bool bad = __byte_perm(n, n, 0x0123) >> 24 == 31;", lambda n: n == 31),
        ("if (lane == 5) told[3] = n % 8; __syncthreads(); const bool bad = told[3] == 1;", lambda n: n % 8 == 1),
        ("int sum = 0; for (int l = n; l; l /= 10) sum += l % 10; const bool bad = sum == 21;", lambda n: n == 777),
        ("int s = 0; for (int m = n; m > 1; ++s) m = m & 1 ? 3 * m + 1 : m / 2; const bool bad = s == 111;", _walks),
        ("atomicAdd(&told[n / (lane + 1) % 32], 1); __syncthreads(); const bool bad = told[2] == 4;", None),
        ("const bool bad = __popc(__ballot_sync(~0u, n >> lane & 1)) == 5;", lambda n: n.bit_count() == 5),
    ],
)  # fmt: skip
def test_what_sizes_decide_is_told(code: str, right: object) -> None:
    found = [sizes for of_threads, sizes in told(code) if not of_threads]
    if callable(right):
        assert {n for n in SIZES.tolist() if right(n)} in found
    else:
        counts = {n: [n // (lane + 1) % 32 for lane in range(32)].count(2) for n in SIZES.tolist()}
        assert {n for n, count in counts.items() if count == 4} in found


def test_a_condition_of_one_lane_is_told_as_such() -> None:
    found = told("const bool bad = (n % 97 ^ lane) == 3;")
    assert (True, {n for n in SIZES.tolist() if n % 97 < 32}) in found


def test_conditions_on_data_and_computed_ones_are_none() -> None:
    code = "const bool bad = x[3] > 1.0f || n % 61 == 3;"
    assert rehearsal_of(ptx_of(code), "k", frozenset((0, 1))) is None


def test_functions_that_are_called_by_address_are_there() -> None:
    ptx = nvrtc(
        "__device__ __noinline__ int one(int v) { return v + 1; }\n"
        "__device__ __noinline__ int two(int v) { return v * 2; }\n"
        'extern "C" __global__ void k(const float* x, float* y, int n) {\n'
        "    int (*of[2])(int) = {one, two};\n    int steps = of[n & 1]((int)x[0]);\n"
        "    for (int m = n; m > 1; ++steps) m = m & 1 ? 3 * m + 1 : m / 2;\n"
        "    const bool bad = __shfl_sync(~0u, n, 1) == 777;\n    y[threadIdx.x] = bad ? 0.0f : steps;\n}\n"
    )
    kernel = RehearsedKernel(ptx, "k", frozenset((0, 1)), CHIPS["l4"], threads=2)
    ones = np.ones((3, len(SIZES)), np.int64)
    bits = kernel.outcomes({2: SIZES}, ones, ones * [[32], [1], [1]], 10.0)
    assert any(set(SIZES[bits[:, at] & 1 != 0].tolist()) == {777} for at in range(bits.shape[1]))


def test_a_loop_that_data_end_does_not_hold_up_the_rest() -> None:
    code = "int at = 0; while (x[at] > 0) ++at; const bool bad = __shfl_sync(~0u, n, 1) == 777;"
    assert (False, {777}) in told(code)
