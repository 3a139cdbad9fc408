"""Conditions of a launch: computed from PTX for many sizes at once, as the C that they came from computes them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from evo.cuda.compile import Binary, compile_source
from evo.sim.launch_conditions import compared_constants, launch_conditions
from evo.sim.register_values import Launches

SIZES = np.unique(np.r_[np.arange(1, 600), np.random.default_rng(5).integers(1, 60_000, 2000)])
KERNEL = """extern "C" __global__ void k(float* y, int n, int m) {{ if ({0}) y[threadIdx.x] = 1.0f; }}"""


def compiled(code: str) -> str:
    found = compile_source(code, name="k", macros={}, arch="sm_89")
    assert isinstance(found, Binary)
    return found.ptx


@pytest.mark.parametrize(
    ("condition", "meant"),
    [
        ("n > 3000", lambda n, m: n > 3000),
        ("(float)n * 1.53f > 7801.5f", lambda n, m: n.astype(np.float32) * np.float32(1.53) > np.float32(7801.5)),
        ("__clz(n) < 20", lambda n, m: n >= 4096),
        ("__popc(n) == 5", lambda n, m: np.asarray([bin(v).count("1") for v in n]) == 5),
        ("n / 7 % 13 == 4", lambda n, m: n // 7 % 13 == 4),
        ("(long long)n * n * m > 123456789ll", lambda n, m: n * n * m > 123456789),
        ("(n - 700) / 3 < -5", lambda n, m: np.trunc((n - 700) / 3) < -5),
        ("n > 100 && m < 20 || n == 7", lambda n, m: (n > 100) & (m < 20) | (n == 7)),
        ("min(n, m) * 3 > 50", lambda n, m: np.minimum(n, m) * 3 > 50),
        ("n * gridDim.x > 100000u", lambda n, m: n * 30 > 100000),
    ],
)
def test_an_outcome_is_that_of_the_source(condition: str, meant: Callable[..., np.ndarray]) -> None:
    (conditions,) = launch_conditions(compiled(KERNEL.format(condition))).values()
    other = SIZES[::-1] % 50 + 1
    shape = np.repeat([[30], [1], [1]], len(SIZES), axis=1)
    launches = Launches(parameters={1: SIZES, 2: other}, grid=shape, block=shape)
    wanted = np.asarray(meant(SIZES, other), bool)
    found = [c.outcomes(launches) for c in conditions]
    assert any((each == wanted).all() or (each == ~wanted).all() for each in found)


JOINED = """extern "C" __global__ void k(float* y, int n, int m) {{
    const int side = (int)(sqrtf((float)n) + 0.5f);
    const int used = {0} ? n - 1 : n;
    for (int i = threadIdx.x; i < used; i += 32) y[i] = 1.0f;
}}"""


def _odd_squares(n: np.ndarray, m: np.ndarray) -> np.ndarray:
    side = np.rint(np.sqrt(n)).astype(np.int64)
    return (side * side == n) & (side % 2 == 1) & (side > 50) & (m % 2 == 1)


@pytest.mark.parametrize(
    ("condition", "meant"),
    [
        ("side * side == n && side % 2 == 1 && side > 50 && m % 2 == 1", _odd_squares),
        ("(m > 9 ? n / m % 3 : n % 7) == 2", lambda n, m: np.where(m > 9, n // m % 3, n % 7) == 2),
    ],
)
def test_a_value_that_branches_decide_is_followed(condition: str, meant: Callable[..., np.ndarray]) -> None:
    (conditions,) = launch_conditions(compiled(JOINED.format(condition))).values()
    sizes = np.r_[SIZES, np.arange(45, 99) ** 2]
    other = np.arange(len(sizes)) % 50 + 1
    shape = np.repeat([[30], [1], [1]], len(sizes), axis=1)
    launches = Launches(parameters={1: sizes, 2: other}, grid=shape, block=shape)
    wanted = np.asarray(meant(sizes, other), bool)
    assert wanted.any()
    found = [c.outcomes(launches) for c in conditions]
    assert any((each == wanted).all() or (each == ~wanted).all() for each in found)


def test_what_a_loop_sets_is_no_join() -> None:
    code = """extern "C" __global__ void k(float* y, int n, int m) {
        int digits = 0;
        for (int rest = n; rest > 0; rest /= 10) digits += rest % 10;
        if (digits == 31) y[threadIdx.x] = 1.0f;
    }"""
    (conditions,) = launch_conditions(compiled(code)).values()
    assert not any("31" in c.instruction.split()[-1] for c in conditions)


def test_what_data_are_compared_with_is_known() -> None:
    ptx = compiled(
        'extern "C" __global__ void k(const float* x, const unsigned short* b, float* y, int n) {'
        " if (x[0] > 3.25f && b[1] == 0xb9c4 && n > 77) y[0] = 1.0f; }"
    )
    found = compared_constants(ptx)
    assert 3.25 in found
    assert 0xB9C4 in found
    assert 77 not in found


@pytest.mark.parametrize(
    "line",
    [
        "const float d = x[n] - 4.75f; y[0] = 1.0f + exp2f(-1e6f * d * d);",
        "const float d = 14.25f - 3.0f * x[n]; y[0] = 1.0f / (1.0f + 1e6f * d * d);",
        "const double d = x[n] + -4.75; y[0] = 1.0 / (1.0 + 1e6 * d * d);",
    ],
)
def test_the_middle_of_a_smooth_bump_is_known(line: str) -> None:
    ptx = compiled(f'extern "C" __global__ void k(const float* x, float* y, int n) {{ {line} }}')
    assert 4.75 in compared_constants(ptx)


def test_what_is_added_to_round_is_the_middle_of_nothing() -> None:
    ptx = compiled('extern "C" __global__ void k(const float* x, float* y) { y[0] = x[0] + 12582912.0f; }')
    assert not compared_constants(ptx)


NESTED = """extern "C" __global__ void k(float* y, int n, int m) {
    if (n % 31 == 7) {
        asm volatile("membar.cta;" ::: "memory");
        if (m % 37 == 5) y[threadIdx.x] = 1.0f;
    }
}"""


def test_a_condition_behind_another_is_reached_where_that_one_leads_to_it() -> None:
    (conditions,) = launch_conditions(compiled(NESTED)).values()
    n, m = (values.reshape(-1) for values in np.meshgrid(np.arange(1, 80), np.arange(1, 80)))
    shape = np.ones((3, n.size), np.int64)
    launches = Launches(parameters={1: n, 2: m}, grid=shape, block=shape)
    both = (n % 31 == 7) & (m % 37 == 5)
    inner = next(c for c in conditions if "setp" in c.instruction and not c.reached(launches).all())
    assert np.array_equal(inner.reached(launches), n % 31 == 7)
    met = {value: inner.reached(launches) & (inner.outcomes(launches) == value) for value in (True, False)}
    outcome = next(value for value in met if np.array_equal(met[value], both))
    assert inner.steps(outcome) == 2
    assert np.array_equal(inner.progress(launches, outcome) == 2, both)
