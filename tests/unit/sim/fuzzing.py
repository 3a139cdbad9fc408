"""Runs batches of fuzz_child.py and says how they ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import goldens
import goldens_cuda
from harness import nvrtc

DATA = Path(__file__).parents[2] / "data" / "sim"
NAMES = (
    "histogram_global", "stencil_global", "csr_scalar", "sort_warp", "compact_atomic", "async_own", "transpose_half",
    "local_array", "reduce_shuffle", "named_barriers", "mbarrier_stages", "lock_in_warp", "warp_apart", "grid_barrier",
    "recursive_sort", "sums_by_key", "lanes_in_buffers", "vectors_in_buffers", "atomics_in_spaces", "calls_indexed",
    "pointers_in_constant", "copy_ignored",
)  # fmt: skip


def batch(mode: str, first: int, count: int, folder: Path, seconds: float) -> dict[str, int]:
    """Outcomes of mutants `first`.. in a child; a crash, a hang or any other exception names the mutant's seed."""
    texts = folder / f"{mode}.json"
    if mode == "instruction":
        golden = {case.name: case.ptx for case in (*goldens.opcodes(64), *goldens_cuda.kernels())}
        texts.write_text(json.dumps(golden))
    else:
        texts.write_text(json.dumps({name: nvrtc((DATA / "clean" / f"{name}.cu").read_text()) for name in NAMES}))
    command = [sys.executable, str(DATA / "fuzz_child.py"), mode, str(first), str(count), str(texts)]
    env = {**os.environ, "EVO_CACHE": str(folder / "cache")}
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        seen = (error.stdout or b"").decode().split()[-1:]
        raise AssertionError(f"{mode} mutant {seen} hangs") from error
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (
        f"{mode} mutant {lines[-1:]} ended the process: {done.returncode}\n{done.stderr[-1500:]}"
    )
    return dict(json.loads(lines[-1]))
