"""How fast the simulator loads and runs three kernels, beside the prototype that it replaced (`make bench`).

The prototype's figures are those of the design notes: llvmlite O1, AVX-512, one core, counters and bounds checks on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from evo import sim
from evo.cuda.compile import Binary, compile_source

KERNELS = Path(__file__).parents[1] / "tests/unit/sim/kernels"
# name -> (compile seconds, run seconds, seconds with the race checker) of the prototype
PROTOTYPE = {"scalar": (1.08, 0.272, None), "mm": (0.47, 0.116, 0.550), "flash": (1.58, 0.190, 0.265)}


def binary(name: str) -> str:
    made = compile_source((KERNELS / f"{name}.cu").read_text(), name=f"{name}.cu", macros={}, arch="sm_89")
    if not isinstance(made, Binary):
        raise SystemExit(f"{name}.cu does not compile: {made}")
    return made.ptx


def attention(length: int = 512, heads: int = 16) -> list[Any]:
    rng = np.random.default_rng(1)
    shape = (heads, length, 64)
    arrays = [rng.standard_normal(shape).astype(np.float16) for _ in range(3)]
    return [*arrays, np.zeros(shape, np.float16), np.int32(length), np.float32(0.125)]


def matmul(n: int = 512) -> list[Any]:
    rng = np.random.default_rng(2)
    return [
        *(rng.standard_normal((n, n)).astype(np.float32) for _ in range(2)),
        np.zeros((n, n), np.float32),
        np.int32(n),
    ]


CASES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "scalar": (attention(), {"grid": (4, 16), "block": (128,)}),
    "mm": (matmul(), {"grid": (16, 16), "block": (32, 32)}),
    "flash": (attention(), {"grid": (8, 16), "block": (128,), "shared_bytes": 40_960}),
}


def launch(module: sim.Module, name: str, **how: Any) -> tuple[float, sim.LaunchResult]:
    values, shape = CASES[name]
    memory = sim.Memory()
    args = []
    for index, value in enumerate(values):
        if not value.shape:
            args.append(value)
            continue
        written = index == len([v for v in values if v.shape]) - 1
        buffer = memory.allocate(value.nbytes, f"arg{index}", writable=written)
        memory.write(buffer, value)
        args.append(buffer)
    start = time.perf_counter()
    result = module.launch(next(iter(module.kernels)), args=args, memory=memory, **shape, **how)
    return time.perf_counter() - start, result


HOW: dict[str, dict[str, Any]] = {
    "plain": {"race": False},
    "race": {},
    "two_plain": {"race": False, "threads": 2},
    "two": {"threads": 2},
}


def best(module: sim.Module, name: str, repeats: int) -> dict[str, float]:
    """Least wall seconds of each way to run, taken in turns, and `..._cpu`: of the busiest thread, in processor time.

    What else runs on the machine stretches the wall figures; the processor time of threads it hardly touches.
    """
    row: dict[str, float] = {}
    for _ in range(repeats):
        for way, how in HOW.items():
            wall, result = launch(module, name, **how)
            for key, value in ((way, wall), (f"{way}_cpu", max(result.cpu_s))):
                row[key] = min(value, row.get(key, value))
    return row


def loading(ptx: str) -> float:
    start = time.perf_counter()
    module = sim.load(ptx)
    module.compile(next(iter(module.kernels)))
    return time.perf_counter() - start


def fresh_load(name: str, cache: str) -> tuple[float, float]:
    """Seconds to load in a process of its own: the first time there, and again in the same process's disk cache."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import simulator as s, json; "
    code += f"p = s.binary({name!r}); s.sim.load(s.binary('mm')) if {name!r} != 'mm' else None; print(s.loading(p))"
    env = {**os.environ, "EVO_CACHE": cache}
    times = [
        float(subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True).stdout)
        for _ in range(2)
    ]
    return times[0], times[1]


def measure(name: str, repeats: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:
        cold, cached = fresh_load(name, cache)
    module = sim.load(binary(name))
    launch(module, name)  # memory and code of the first launch are fresh
    row = {"cold": cold, "cached": cached, **best(module, name, repeats)}
    row["instructions"] = launch(module, name)[1].counters.totals()["thread_instructions"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20, metavar="N", help="of each way to run, in turns")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    rows = {name: measure(name, options.repeats) for name in CASES}
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(
        "           wall seconds                                            ratios               1 thread / 2 threads"
    )
    print("kernel     cold  cached     run    race  2 threads   G instr/s    run/proto  race/run    wall   processor")
    for name, row in rows.items():
        proto = row["plain"] / PROTOTYPE[name][1]
        print(
            f"{name:8}{row['cold']:7.2f}{row['cached']:8.3f}{row['plain']:8.3f}{row['race']:8.3f}{row['two']:11.3f}"
            f"{row['instructions'] / row['plain'] / 1e9:12.2f}{proto:13.2f}{row['race_cpu'] / row['plain_cpu']:10.2f}"
            f"{row['race'] / row['two']:8.2f}{row['race_cpu'] / row['two_cpu']:12.2f}"
        )


if __name__ == "__main__":
    main()
