"""Coverage: which outcomes of conditions a launch has seen, and what was last compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from harness import nvrtc, run

from evo import sim
from evo.results.coverage import Coverage, CoveragePoint, PointKind

SOURCE = """extern "C" __global__ void k(const float* x, float* y, int n, int mode) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float s = 0;
  #pragma unroll 1
  for (int j = 0; j < n; ++j) s = fmaxf(s, x[j]);
  if (n > 4096) s = 7;
  #pragma unroll 1
  while (s > 1e30f) s = s / x[i];
  switch (mode) {
    case 0: s += 1; break;
    case 1: y[i + 1] = 3; break;
    case 2: s = rsqrtf(s); break;
    case 3: y[0] = s; break;
    case 4: s = cbrtf(s); break;
    case 5: s = x[i] * s; break;
  }
  y[i] = x[i] < -100.0f ? s : 3 - s;
}"""
PTX = nvrtc(SOURCE)
N = 100


def launched(module: sim.Module, n: int = N, *, threads: int = 1, block: int = 64) -> Coverage:
    memory = sim.Memory()
    x, y = memory.allocate(4 * N, "x"), memory.allocate(4 * N, "y")
    memory.write(x, np.linspace(-1, 1, N, dtype=np.float32))
    args = [x, y, np.int32(n), np.int32(5)]
    result = module.launch("k", grid=(2,), block=(block,), args=args, memory=memory, threads=threads)
    assert result.faults == ()
    assert result.coverage is not None
    return result.coverage


@pytest.fixture(scope="module")
def module() -> sim.Module:
    return sim.load(PTX, coverage=True)


def at(coverage: Coverage, line: int, kind: PointKind) -> CoveragePoint:
    (point,) = (p for p in coverage.by_line()[line] if p.kind is kind)
    return point


def test_branches_count_threads(module: sim.Module) -> None:
    point = at(launched(module), 3, PointKind.BRANCH)
    assert dict(point.outcomes) in ({"taken": 28, "not_taken": 100}, {"taken": 100, "not_taken": 28})
    assert (point.reached, point.unexercised) == (True, ())


def test_comparisons_name_their_operands_and_where_they_come_from(module: sim.Module) -> None:
    point = at(launched(module), 7, PointKind.COMPARISON)
    assert point.left is not None
    assert point.right is not None
    assert (point.left.value, point.left.origins) == (100, ("param 2",))
    assert (point.right.value, point.right.constant) == (4096, True) or point.right.value == 4097
    assert len(point.unexercised) == 1
    index = at(launched(module), 3, PointKind.COMPARISON)
    assert index.left is not None
    assert set(index.left.origins) == {"ctaid.x", "ntid.x", "tid.x"}
    data = at(launched(module), 18, PointKind.COMPARISON)
    assert data.left is not None
    assert (data.left.origins, type(data.left.value)) == (("memory",), float)


def test_maxima_and_selections(module: sim.Module) -> None:
    coverage = launched(module)
    largest = at(coverage, 6, PointKind.MAXIMUM)
    assert sum(largest.outcomes.values()) == N * N
    assert largest.unexercised == ()
    chosen = at(coverage, 18, PointKind.SELECT)
    assert sorted(chosen.outcomes.values()) == [0, N]


def test_loops_are_told_from_branches(module: sim.Module) -> None:
    coverage = launched(module)
    turns = [p for p in coverage.by_line()[6] if p.kind is PointKind.LOOP]
    assert [sorted(p.outcomes.values()) for p in turns] == [[N, N * (N - 1)]]
    assert not any(p.kind is PointKind.LOOP for p in coverage.by_line()[3])


def test_code_that_never_ran_is_not_reached(module: sim.Module) -> None:
    coverage = launched(module)
    inside = [p for p in coverage.points if not p.reached]
    assert inside
    assert all(p.left is None or p.left.constant or p.left.value is None for p in inside)


def test_launches_are_merged(module: sim.Module) -> None:
    whole, none = launched(module), launched(module, n=0)
    both = Coverage.merged((none, whole, whole))
    assert at(none, 3, PointKind.BRANCH).unexercised != ()
    assert sum(at(both, 3, PointKind.BRANCH).outcomes.values()) == 3 * 128
    assert at(both, 7, PointKind.COMPARISON).left == at(whole, 7, PointKind.COMPARISON).left
    assert at(Coverage.merged((whole, none)), 7, PointKind.COMPARISON).left == at(whole, 7, PointKind.COMPARISON).left


def test_other_binaries_are_not_merged(module: sim.Module) -> None:
    other = sim.load(nvrtc(SOURCE.replace("4096", "4095")), coverage=True)
    with pytest.raises(ValueError, match="two binaries"):
        Coverage.merged((launched(module), launched(other)))


def test_threads_see_the_same(module: sim.Module) -> None:
    alone, together = launched(module, block=32), launched(module, block=32, threads=2)
    assert [p.outcomes for p in alone.points] == [p.outcomes for p in together.points]


STAGGERED = """extern "C" __global__ void k(const float* x, float* y) {
  float s = x[blockIdx.x];
  #pragma unroll 1
  for (int i = 0; i < (gridDim.x - blockIdx.x) * 400; ++i) s = fmaf(s, 0.5f, x[i & 63]);
  y[blockIdx.x] = x[blockIdx.x] > 0.25f && s < 9.0f ? s : 1.0f;
}"""


def test_threads_log_what_the_last_block_compares() -> None:
    """The earlier a block, the longer it takes: in threads the last one to end is seldom the last of the list."""
    staggered = sim.load(nvrtc(STAGGERED), coverage=True)
    seen = []
    for threads in (1, 2, 3, 2, 3):
        memory = sim.Memory()
        x, y = memory.allocate(256, "x"), memory.allocate(256, "y")
        memory.write(x, np.linspace(-1, 1, 64, dtype=np.float32))
        result = staggered.launch("k", grid=(64,), block=(1,), args=[x, y], memory=memory, threads=threads)
        seen.append(result.coverage)
    assert seen[0] is not None
    assert any(p.left is not None and p.left.value == 1.0 for p in seen[0].points)
    assert all(other == seen[0] for other in seen)


CARRIED = """extern "C" __global__ void k(const float* x, float* y) {
  float last = 0.0f;
  int i = 1;
  #pragma unroll 1
  for (; i < 60; ++i) {
    const float now = x[i] - x[i - 1];
    if (now < 2.0f * last) break;
    last = now;
  }
  y[0] = i;
}"""


def test_what_a_loop_hands_on_is_logged_as_it_was_compared() -> None:
    """When the loop ends it may be another already."""
    memory = sim.Memory()
    x, y = memory.allocate(256, "x"), memory.allocate(256, "y")
    memory.write(x, np.cumsum(np.float32([0, 1, 2, 4, 8, 10, *[0] * 58])).astype(np.float32))
    result = sim.load(nvrtc(CARRIED), coverage=True).launch("k", grid=(1,), block=(1,), args=[x, y], memory=memory)
    assert result.coverage is not None
    floats = [
        {float(np.asarray([leaf.bits], np.uint32).view(np.float32)[0]) for leaf in point.leaves if leaf.is_data}
        for point in result.coverage.points
        if point.kind is PointKind.COMPARISON and point.leaves
    ]
    assert {15.0, 25.0, 8.0} in floats


def test_a_module_from_disk_counts_as_well(tmp_path: Path) -> None:
    first = launched(sim.load(PTX, cache=tmp_path, coverage=True))
    assert launched(sim.load(PTX, cache=tmp_path, coverage=True)) == first


def test_nothing_is_counted_unless_asked() -> None:
    memory = sim.Memory()
    x, y = memory.allocate(4 * N, "x"), memory.allocate(4 * N, "y")
    args = [x, y, np.int32(0), np.int32(0)]
    assert sim.load(PTX).launch("k", grid=(1,), block=(32,), args=args, memory=memory).coverage is None


HEAD = ".version 8.3\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u64 out)\n"

PREDICATED = """{ .reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2;
  setp.lt.u32 %p1, %r1, 8; mov.u32 %r2, 1; @%p1 mov.u32 %r2, 2; @!%p1 mov.u32 %r2, 3;
  @%p1 setp.gt.u32 %p2, %r1, 3; st.global.u32 [%d3], %r2; ret; }"""

SWITCH = """{ .reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2;
  and.b32 %r2, %r1, 1;
  table: .branchtargets A, B, C;
  brx.idx %r2, table;
A: st.global.u32 [%d3], 1; ret;
B: st.global.u32 [%d3], 2; ret;
C: st.global.u32 [%d3], 3; ret; }"""


def of_text(body: str) -> list[CoveragePoint]:
    memory = sim.Memory()
    out = memory.allocate(128, "out")
    result = sim.load(HEAD + body, coverage=True).launch("k", grid=(1,), block=(32,), args=[out], memory=memory)
    assert result.faults == ()
    assert result.coverage is not None
    return list(result.coverage.points)


def test_guards_count_who_executes_the_instruction() -> None:
    points = of_text(PREDICATED)
    guards = [dict(p.outcomes) for p in points if p.kind is PointKind.PREDICATED]
    assert guards == [{"executed": 8, "skipped": 24}, {"executed": 24, "skipped": 8}, {"executed": 8, "skipped": 24}]
    inner = [p for p in points if p.kind is PointKind.COMPARISON][1]
    assert dict(inner.outcomes) == {"true": 4, "false": 4}


def test_tables_count_every_target() -> None:
    (point,) = (p for p in of_text(SWITCH) if p.kind is PointKind.SWITCH)
    assert dict(point.outcomes) == {"0": 16, "1": 16, "2": 0}
    assert point.unexercised == ("2",)


def test_what_another_instruction_implies_is_marked_however_it_is_spelled() -> None:
    text = """extern "C" __global__ void k(const float* x, float* y) {
        float v = x[threadIdx.x], w;
        asm("add.sat.f32 %0, %1, %1; // of two" : "=f"(w) : "f"(v));
        y[threadIdx.x] = v > 3.0f ? w : -w; }"""
    points = run(sim.load(nvrtc(text), coverage=True), "k", [np.ones(32, np.float32), np.ones(32, np.float32)])[
        1
    ].coverage.points
    assert {point.instruction.split()[0].split(".")[0] for point in points if point.implied} == {"setp"}
    assert {len(point.outcomes) for point in points if point.implied} == {2}
    assert any(point.kind is PointKind.COMPARISON and not point.implied for point in points)
