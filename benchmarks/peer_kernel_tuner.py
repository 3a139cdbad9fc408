"""Kernel Tuner's CuPy backend on a knob space of the register-tiled matmul, in a process of its own.

Brute force over the configurations given on stdin: compile, one verified run, mean of 7. Prints one JSON object as its
last line. Run by throughput.py, with CUPY_CACHE_DIR at an empty folder.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

ITERATIONS = 7
TOLERANCE = 1e-2


def tunable_source(text: str, knobs: Sequence[str]) -> str:
    """The text without its `// evo:` lines and the knobs' own defines: the tuner puts its own in front."""
    kept = [line for line in text.splitlines() if not line.startswith("// evo:")]
    taken = re.compile(rf"\s*#\s*define\s+({'|'.join(knobs)})\s")
    return "\n".join(line for line in kept if not taken.match(line)) + "\n"


def space(configurations: Sequence[Mapping[str, int]]) -> tuple[dict[str, list[int]], Callable[[Any], bool]]:
    """Kernel Tuner's parameters with the threads of a block among them, and the restriction to these configurations."""
    full = [{**c, "block_size_x": (c["BLOCK"] // c["PATCH"]) ** 2} for c in configurations]
    parameters = {name: sorted({c[name] for c in full}) for name in full[0]}
    allowed = {tuple(c[name] for name in parameters) for c in full}

    def legal(found: Any) -> bool:
        return tuple(found[name] for name in parameters) in allowed

    return parameters, legal


def tune(job: Mapping[str, Any]) -> dict[str, Any]:
    """Tune and report. job: text, knobs, configurations, m, n, k, seed."""
    import cupy
    from kernel_tuner import tune_kernel

    _whole_uuid(cupy)
    m, n, k = job["m"], job["n"], job["k"]
    rng = np.random.default_rng(job["seed"])
    a = rng.standard_normal((m, k), dtype=np.float32).astype(np.float16)
    b = (rng.standard_normal((k, n), dtype=np.float32) / np.float32(k**0.5)).astype(np.float16)
    answer = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    c = np.zeros((m, n), np.float16)
    parameters, legal = space(job["configurations"])
    cupy.zeros(1)  # the context is not on the clock
    started = time.perf_counter()
    results, _ = tune_kernel(
        "matmul",
        tunable_source(job["text"], job["knobs"]),
        (n, m),
        [a, b, c, np.int32(m), np.int32(n), np.int32(k)],
        parameters,
        grid_div_x=["BLOCK"],
        grid_div_y=["BLOCK"],
        restrictions=legal,
        answer=[None, None, answer, None, None, None],
        atol=TOLERANCE,
        lang="cupy",
        compiler_options=["--std=c++17"],
        iterations=ITERATIONS,
        quiet=True,
    )
    wall = time.perf_counter() - started
    timed = [row for row in results if isinstance(row.get("time"), float)]
    parts = [{name: row[f"{name}_time"] / 1000 for name in ("compile", "verification", "benchmark")} for row in timed]
    return {
        "configurations": len(results),
        "timed": len(timed),
        "wall_s": wall,
        "parts_s": parts,
        "best_us": min(row["time"] for row in timed) * 1000 if timed else None,
    }


def _whole_uuid(cupy: Any) -> None:
    # CuPy cuts a UUID short at its first zero byte, and Kernel Tuner's backend then refuses the device.
    original = cupy.cuda.runtime.getDeviceProperties

    def padded(index: int) -> dict[str, Any]:
        found = original(index)
        found["uuid"] = bytes(found["uuid"]).ljust(16, b"\0")[:16]
        return dict(found)

    cupy.cuda.runtime.getDeviceProperties = padded


if __name__ == "__main__":
    print(json.dumps(tune(json.load(sys.stdin))))
