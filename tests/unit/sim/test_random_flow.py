"""Random correct kernels whose lanes part and meet: no alarm, and the values that NumPy computes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import random_flow
from harness import nvrtc, run
from long_cases import long

from evo import sim
from evo.sim.lower import branching

# Lanes run ahead of one that polls, back to a vote at the head: 48, 133, 142.
SAMPLE = (*range(10), 48, 133, 142)


def check(seed: int, cache: Path | None = None, *options: str) -> None:
    text, expected, threads = random_flow.make(seed)
    x = np.random.default_rng(seed).integers(0, 2**32, 2 * threads, dtype=np.uint32)
    out = np.zeros(2 * threads * (random_flow.SLOTS + 4), np.uint32)
    n = seed % 7 + 1
    args = [x, out, np.uint32(n)]
    module = sim.load(nvrtc(text, *options), opt_level=0, cache=cache)
    outputs, result = run(module, "k", args, grid=(2,), block=(threads,), budget=20_000_000)
    assert result.faults == (), seed
    np.testing.assert_array_equal(outputs[1], expected(x, n), err_msg=str(seed))


@pytest.mark.parametrize("seed", SAMPLE)
def test_correct_kernels_raise_no_alarm(seed: int) -> None:
    check(seed)


def test_masks_are_known_through_the_moves_of_debug_code() -> None:
    check(142, None, "-G")


@pytest.mark.long
@pytest.mark.parametrize("start", range(100_000, 100_480, 40))
def test_hundreds_of_correct_kernels_raise_no_alarm(start: int) -> None:
    for seed in range(start, start + 40):
        check(seed)


@pytest.mark.parametrize("seeds", [(3, 7), long(range(200_000, 200_040))], ids=["two", "forty"])
def test_a_set_of_waiting_blocks_in_memory_is_the_same_set(
    seeds: Sequence[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in kernels of hundreds of branches."""
    monkeypatch.setattr(branching, "_MOST_AT_ONCE", 0)
    for seed in seeds:
        check(seed, tmp_path)


@pytest.mark.long
def test_code_grows_with_the_branches_of_a_kernel_and_no_faster(tmp_path: Path) -> None:
    sizes = []
    for count in (300, 600):
        steps = "".join(f"if (x[threadIdx.x + {i}] > {7 * i}) s += x[{i} + (s & 255)];\n" for i in range(count))
        text = f'extern "C" __global__ void k(int* y, const int* x) {{ int s = 0;\n{steps}y[threadIdx.x] = s; }}'
        module = sim.load(nvrtc(text), opt_level=0, cache=tmp_path / str(count))
        values = np.full(1024, 5000, np.int32)
        values[::2] = 0
        outputs, result = run(module, "k", [np.zeros(32, np.int32), values], grid=(1,), block=(32,))
        assert result.faults == ()
        lanes, total = np.arange(32), np.zeros(32, np.int32)
        for i in range(count):
            total += np.where(values[lanes + i] > 7 * i, values[i + (total & 255)], 0)
        np.testing.assert_array_equal(outputs[0], total)
        sizes.append(sum(file.stat().st_size for file in (tmp_path / str(count)).rglob("*.o")))
    assert sizes[1] < 2.3 * sizes[0]


KERNEL = """extern "C" __global__ void k(int* y, const int* x) {
  __shared__ int flag;
  int t = threadIdx.x, v = x[t];
  if (t == 0) flag = 0;
  BODY
  __syncthreads();
  y[t] += v;
}"""

HEADS = {
    "barrier_that_votes": "while (__syncthreads_or(v > 0)) if (v > 0) y[t] = v--;",
    "vote": "while (__any_sync(~0u, v > 0)) { if (v <= 0) continue; if (v & 1) { --v; continue; } y[t] = v; v -= 2; }",
    "shuffle": """for (int i = 0; i < 5; ++i) { int u = __shfl_xor_sync(~0u, v, 1); if (u > v) continue;
                  if (v > 3) { y[t] = u; continue; } y[t] = 7; }""",
    "queue_of_tiles": """__shared__ int next;
        for (;;) { if (t == 0) next = atomicAdd(&flag, 1); __syncthreads(); int tile = next; __syncthreads();
                   if (tile >= 5) break; if (tile * 32 + t >= 140) continue; if (v == tile) continue; y[t] = tile; }""",
    "polling_lane": """__syncthreads();
        for (int i = 1; i < 4; ++i) { __syncthreads(); y[t] = i; atomicAdd(&flag, 1);
                                      if (t == 3) while (*(volatile int*)&flag < i * 64); }""",
}


@pytest.mark.parametrize("name", HEADS)
def test_threads_meet_at_the_head_of_a_loop_with_several_ways_back(name: str) -> None:
    threads = 64 if name == "polling_lane" else 32
    x = (np.arange(threads) % 7).astype(np.int32)
    text = nvrtc(KERNEL.replace("BODY", HEADS[name]))
    _, result = run(sim.load(text), "k", [np.zeros(threads, np.int32), x], grid=(1,), block=(threads,), budget=10**6)
    assert result.faults == ()


MISSING = {
    "barrier": "while (__syncthreads_or(v > 0)) { if (v == 1) break; --v; }",
    "vote": "for (int i = 0; i < 5; ++i) { if (v == i) continue; if (__any_sync(~0u, v > 3)) y[t] = i; }",
    "polling_lane": """__syncthreads(); if (t == 3) { while (*(volatile int*)&flag < 31); __syncthreads(); }
                       else atomicAdd(&flag, 1);""",
}


@pytest.mark.parametrize("name", MISSING)
def test_threads_that_never_come_are_still_missed(name: str) -> None:
    x = (np.arange(32) % 7).astype(np.int32)
    text = nvrtc(KERNEL.replace("BODY", MISSING[name]))
    _, result = run(sim.load(text), "k", [np.zeros(32, np.int32), x], grid=(1,), block=(32,), budget=10**6)
    assert [fault.kind for fault in result.faults][:1] in (["barrier"], ["warp_sync"])
