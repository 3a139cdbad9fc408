"""Blocks in threads give the bits of one thread; the disk cache survives damage and writers at the same time."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import nvrtc, run

from evo import sim

F = np.float32
HEAD = 'extern "C" __global__ void k(float* a, const float* b, int* f, int n) { int t = threadIdx.x, g = blockIdx.x; '
BODIES = {
    "own rows": ("a[g * 64 + t] = b[t] * g;", True),
    "integer reductions": ("atomicAdd(f + t % 7, g); atomicMax(f + 9, t); atomicOr(f + 10, 1 << g);", True),
    "float atomics": ("atomicAdd(a + t % 3, b[t] / (g + 3));", False),
    "tickets": ("if (!t) a[atomicAdd(f, 1)] = g;", False),
    "volatile": ("a[g * 64 + t] = *(volatile float*)(b + t);", False),
    "odd halves": ("((short*)a)[g * 65 + t] = g; if (!t) ((short*)a)[g * 65 + 64] = g;", True),
    "race": ("a[t] = g;", True),
    "race of a reader": ("a[g * 64 + t] = a[(g * 64 + t + 64) % 512];", True),
    "late fault": ("if (g == 5) a[t + 4096] = 1; else a[g * 64 + t] = 1;", True),
    "too much work": ("for (int i = 0; i < n * 1000; i++) a[g * 64 + t] += b[i & 63];", True),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("race", [True, False])
def test_threads_change_nothing(name: str, race: bool) -> None:
    body, parallel = BODIES[name]
    ptx = nvrtc(HEAD + body + "}")
    results: list[Any] = []
    for threads in (1, 2, 3):
        module = sim.load(ptx)  # afresh, since a kernel that is known to take little is not split
        assert module.kernels["k"].kernel.parallel == parallel
        arrays = [np.zeros(1024, F), np.arange(64, dtype=F), np.zeros(16, np.int32), np.int32(64)]
        undefined = (0,) if name in ("own rows", "odd halves") else ()
        out, result = run(
            module, "k", arrays, grid=(8,), block=(64,), threads=threads, race=race, budget=100_000, undefined=undefined
        )
        rows = [r.tobytes() for r in result.counters.records.values()]
        results.append(([o.tobytes() for o in out], result.faults, result.blocks_run, result.counters.totals(), rows))
    assert results[0] == results[1] == results[2]


def test_a_launch_has_as_many_threads_as_its_work_is_worth() -> None:
    module = sim.load(nvrtc(HEAD + "float s = 0; for (int i = 0; i < n; i++) s += b[i & 63]; a[g * 64 + t] = s; }"))
    used = []
    for length in (64, 64, 60_000, 60_000):
        arrays = [np.zeros(512, F), np.arange(64, dtype=F), np.zeros(1, np.int32), np.int32(length)]
        out, result = run(module, "k", arrays, grid=(8,), block=(64,), threads=4)
        assert len(set(out[0].tolist())) == 1
        used.append(len(result.cpu_s))
    assert used == [4, 1, 1, 4]  # each knows the one before


def load_and_run(folder: Path) -> bytes:
    module = sim.load(nvrtc(HEAD + BODIES["own rows"][0] + "}"), cache=folder)
    arrays = [np.zeros(512, F), np.arange(64, dtype=F), np.zeros(1, np.int32), np.int32(64)]
    out, result = run(module, "k", arrays, grid=(8,), block=(64,))
    assert result.faults == ()
    return bytes(out[0].tobytes())


def in_process(folder: str) -> bytes:
    return load_and_run(Path(folder))


@pytest.mark.long
def test_damaged_cache_files_count_as_missing(tmp_path: Path) -> None:
    from evo.sim import jit

    jit.forget()
    good = load_and_run(tmp_path)
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert {path.suffix for path in files} == {".o", ".module"}
    for number, damage in enumerate((lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:-1] + bytes([b[-1] ^ 1]))):
        for path in files:
            path.write_bytes(damage(path.read_bytes()))
        jit.forget()
        assert load_and_run(tmp_path) == good, number
    for path in files:
        if path.suffix == ".o":
            path.unlink()
    jit.forget()
    assert load_and_run(tmp_path) == good


def test_code_that_is_not_held_any_more_is_linked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evo.sim import jit
    from evo.spec.recent_cache import RecentCache

    linked: RecentCache[Any] = RecentCache(1)  # holds the latest kernel only
    monkeypatch.setattr(jit, "_LINKED", linked)
    monkeypatch.setattr(jit, "_OBJECTS", RecentCache(1))
    modules = [sim.load(nvrtc(HEAD + BODIES[name][0] + "}"), cache=tmp_path) for name in ("own rows", "race")]
    outputs: list[list[bytes]] = [[], []]
    sizes = []
    for at in (0, 1, 0, 1):
        arrays = [np.zeros(512, F), np.arange(64, dtype=F), np.zeros(16, np.int32), np.int32(64)]
        out, _ = run(modules[at], "k", arrays, grid=(8,), block=(64,), race=False)
        outputs[at].append(out[0].tobytes())
        sizes.append(linked.held_bytes)
    assert outputs[0][0] == outputs[0][1] != outputs[1][0] == outputs[1][1]
    assert sizes[0] == sizes[2]
    assert sizes[1] == sizes[3]  # one kernel at a time, not the sum of both


def test_processes_may_fill_the_cache_together(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        outputs = pool.map(in_process, [str(tmp_path)] * 2, chunksize=1)
    assert len(set(outputs)) == 1
    assert not list(tmp_path.rglob(".writing-*"))
    # No tables for the unwinder, which numpy asks at each large temporary: it looks through all that was ever linked.
    kept = [path.read_bytes() for path in tmp_path.rglob("*.o")]
    assert kept
    assert not any(b".eh_frame" in code for code in kept)


def test_kept_memory_forgets_the_oldest() -> None:
    """A size of which all was taken leaves nothing behind to drop."""
    from evo.sim import page_pool as pages

    pages.give_back(pages.take(777 << 10))
    lent = pages.take(777 << 10)
    for array in [pages.take(size << 20) for size in range(1, 17)]:  # more than is kept in all
        pages.give_back(array)
    pages.give_back(lent)
    assert pages.take(lent.size, clear=False) is lent
