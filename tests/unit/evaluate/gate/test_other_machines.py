"""Approximate instructions with other bits: which results move, and which stay."""

from __future__ import annotations

import numpy as np
import pytest

from evo import sim
from evo.cuda.compile import Binary, compile_source
from evo.device import Program
from evo.evaluate.gate.other_machines import altered, given_last, rough

KERNEL = """extern "C" __global__ void k(const float* x, float* y, int n) {
    const int i = threadIdx.x;
    float quick = 5.0f;
    %s
    y[i] = quick;
}"""
GUARDED = (
    'asm("{.reg .pred p; setp.lt.s32 p, %1, 7; @p rcp.approx.ftz.f32 %0, %2;}" : "+f"(quick) : "r"(i), "f"(x[i]));'
)


def program_of(body: str) -> Program:
    found = compile_source(KERNEL % body, name="k", macros={})
    assert isinstance(found, Binary), found
    return Program(variant="k", case="c", binary=found, launches=(), outputs=(), scratch=())


def run(program: Program, x: np.ndarray) -> np.ndarray:
    memory = sim.Memory()
    source, target = memory.allocate(4 * len(x), "x"), memory.allocate(4 * len(x), "y")
    memory.write(source, x)
    args = [source, target, np.int32(len(x))]
    result = sim.load(program.binary.ptx).launch("k", grid=(1,), block=(len(x),), args=args, memory=memory)
    assert not result.faults
    return np.asarray(memory.read(target, np.float32, len(x)))


@pytest.mark.parametrize("name", ["rcp.approx.ftz", "rsqrt.approx", "sqrt.approx.ftz", "ex2.approx.ftz"])
def test_results_move_by_one_unit_and_exact_ones_stay(name: str) -> None:
    program = program_of(f'asm("{name}.f32 %0, %1;" : "=f"(quick) : "f"(x[i]));')
    other = altered(program, rough)
    assert other is not None
    assert other.binary.key != program.binary.key
    x = np.r_[np.float32([4.0, 1.0, 0.25, 16.0]), np.linspace(0.3, 9.7, 60, dtype=np.float32)].astype(np.float32)
    before, after = run(program, x), run(other, x)
    apart = after.view(np.int32).astype(np.int64) - before.view(np.int32)
    exact = (before.view(np.uint32) & 0x7FFFFF) == 0
    assert exact[:4].any()
    assert (apart[exact] == 0).all()
    assert set(apart[~exact].tolist()) == {-1, 1}


def test_a_guarded_instruction_moves_where_it_runs_alone() -> None:
    program = program_of(GUARDED)
    other = altered(program, rough)
    assert other is not None
    x = np.linspace(2.1, 9.7, 32, dtype=np.float32)
    apart = run(other, x).view(np.int32) - run(program, x).view(np.int32)
    assert (apart[:7] != 0).all()
    assert (apart[7:] == 0).all()


def test_a_tangent_keeps_twelve_bits() -> None:
    """Within what the ISA lets it err: one in 2^11."""
    program = program_of('asm("tanh.approx.f32 %0, %1;" : "=f"(quick) : "f"(x[i]));')
    other = altered(program, rough)
    assert other is not None
    x = np.r_[np.float32([0.0, np.nan, np.inf, -np.inf]), np.linspace(-4.1, 4.3, 60, dtype=np.float32)]
    before, after = run(program, x), run(other, x)
    np.testing.assert_array_equal(after[:4], before[:4])
    apart = np.abs(after[4:].astype(np.float64) - before[4:]) / np.abs(before[4:])
    assert 2.0**-14 < apart.max() < 2.0**-11
    assert (after[4:].view(np.uint32) & 0xFFF == 0).all()


def test_a_kernel_without_them_is_as_it_was() -> None:
    assert altered(program_of("quick = __frcp_rn(x[i]);"), rough) is None


PRODUCTS = """const unsigned small = 0x0C000C00u, tiny = 0x02000200u;  // 2^-12 and 2^-15 times two
    float r0 = x[i], r1 = x[i], r2 = x[i], r3 = x[i];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %5}, "
                 "{%1, %0, %2, %3};" : "+f"(r0), "+f"(r1), "+f"(r2), "+f"(r3) : "r"(small), "r"(tiny));
    quick = r0;"""


def test_a_tensor_core_may_keep_what_is_far_below_the_sum() -> None:
    """Each product alone is lost beside one, all together are not; beside nothing they are exact either way."""
    program = program_of(PRODUCTS)
    other = altered(program, given_last)
    assert other is not None
    x = np.zeros(32, np.float32)
    products = run(program, x)
    assert (products > 0).all()
    assert (run(other, x) == products).all()
    assert (run(program, x + 1) == 1).all()
    assert (run(other, x + 1) == 1 + products).all()
    assert altered(program_of("quick = x[i];"), given_last) is None
