"""A whole run of `evo iterate matmul`, and what two peers take for the very kernels that it judged, per candidate.

(a) evo: wall seconds of the run over its trials, start and A/A control included. Each trial is compiled, checked on the
    simulator and the GPU, timed at all five sizes against its parent, and decided on.
(b) Kernel Tuner's CuPy backend: each kernel compiled, one verified run, mean of 7, at one size.
(c) the way of KernelBench: a torch extension by nvcc, 5 correctness trials with allclose, 100 timed runs, at one size.
Kernels of several launches, or with workspaces, are left out of (b) and (c). Caches are empty folders.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import loop
import numpy as np
from report import parser, run, say, table, write_json
from throughput import peer

CASE, TASK, START = "square1k", "matmul", "ladder/00_scalar.cu"
_EXTENSION = """
#include <torch/extension.h>
torch::Tensor forward(torch::Tensor a, torch::Tensor b) {{
    auto c = torch::empty({{a.size(0), b.size(1)}}, a.options());
    cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize, {shared});
    matmul<<<dim3{grid}, dim3{block}, {shared}>>>(
        reinterpret_cast<const __half*>(a.data_ptr()), reinterpret_cast<const __half*>(b.data_ptr()),
        reinterpret_cast<__half*>(c.data_ptr()), a.size(0), b.size(1), a.size(1));
    return c;
}}
"""


# --- the peers, each in a process of its own -------------------------------------------------------------------------


def kernel_tuner(jobs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Seconds of each kernel, or None where it does not compile or is wrong."""
    import cupy
    from kernel_tuner import tune_kernel
    from peer_kernel_tuner import _whole_uuid

    _whole_uuid(cupy)
    m, n, k = (jobs[0]["axes"][axis] for axis in ("M", "N", "K"))
    rng = np.random.default_rng(1)
    a = rng.standard_normal((m, k), dtype=np.float32).astype(np.float16)
    b = (rng.standard_normal((k, n), dtype=np.float32) / np.float32(k**0.5)).astype(np.float16)
    answer = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    cupy.zeros(1)  # the context is not on the clock
    rows = []
    for job in jobs:
        at = time.perf_counter()
        found, words = [], None
        try:
            found, _ = tune_kernel(
                "matmul",
                job["text"],
                tuple(job["grid"]),
                [a, b, np.zeros((m, n), np.float16), np.int32(m), np.int32(n), np.int32(k)],
                {f"block_size_{axis}": [size] for axis, size in zip("xyz", job["block"], strict=True)},
                grid_div_x=[],
                grid_div_y=[],
                grid_div_z=[],
                answer=[None, None, answer, None, None, None],
                atol=1e-2,
                lang="cupy",
                smem_args={"size": job["shared"]} if job["shared"] else None,
                compiler_options=["--std=c++17"],
                iterations=7,
                quiet=True,
            )
        except Exception as error:  # noqa: BLE001 - whatever the peer makes of a kernel
            words = f"{type(error).__name__}: {error}"[:200]
        right = bool(found) and isinstance(found[0].get("time"), float)
        rows.append({"seconds": time.perf_counter() - at, "right": right, "error": words})
    return {"rows": rows}


def extension(job: dict[str, Any]) -> dict[str, Any]:
    """Build, check and time one kernel as KernelBench does."""
    at = time.perf_counter()
    import torch
    from torch.utils.cpp_extension import load_inline

    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # ninja
    major, minor = torch.cuda.get_device_capability()
    os.environ["TORCH_CUDA_ARCH_LIST"] = f"{major}.{minor}"
    torch.empty(1, device="cuda")
    started = time.perf_counter() - at
    at = time.perf_counter()
    grid, block = (f"({', '.join(map(str, job[name]))})" for name in ("grid", "block"))
    module = load_inline(
        name="candidate",
        cpp_sources="torch::Tensor forward(torch::Tensor a, torch::Tensor b);",
        cuda_sources=job["text"] + _EXTENSION.format(grid=grid, block=block, shared=job["shared"]),
        functions=["forward"],
        extra_cuda_cflags=["-O3", "--use_fast_math"],
    )
    m, n, k = (job["axes"][axis] for axis in ("M", "N", "K"))
    correct = 0
    for seed in range(6):
        torch.manual_seed(seed)
        a = torch.randn((m, k), device="cuda", dtype=torch.float16)
        b = torch.randn((k, n), device="cuda", dtype=torch.float16) / k**0.5
        if seed < 5:
            correct += bool(torch.allclose(module.forward(a, b), a @ b, atol=1e-2, rtol=1e-2))
    for _ in range(103):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        module.forward(a, b)
        last.record()
        torch.cuda.synchronize()
    return {"start_s": started, "seconds": time.perf_counter() - at, "right": correct == 5}


# --- the run and its kernels ----------------------------------------------------------------------------------------


def kernels_of(root: Path, device: str, arch: str) -> Iterator[dict[str, Any]]:
    """Each kernel that a trial of the run compiled, with its launch at the case."""
    from evo.device import DeviceName
    from evo.evaluate.prepare import Prepared
    from evo.evaluate.session import EvaluationSession
    from evo.records.trials.store import load_records, rebuild_text
    from evo.spec.task import load_task

    task = load_task(root, TASK)
    found = load_records(root, TASK)
    with EvaluationSession(DeviceName(*device.split(":")), arch=arch) as bench:
        for record in found:
            text = rebuild_text(found, record.trial)
            prepared = bench.prepare(task, text)
            if not isinstance(prepared, Prepared):
                continue
            program = prepared.programs[CASE]
            plain = "\n".join(line for line in text.splitlines() if not line.startswith("// evo:"))
            if len(program.launches) != 1 or program.scratch:
                continue
            launch = program.launches[0].launch
            yield {
                "text": plain,
                "grid": launch.grid,
                "block": launch.block,
                "shared": launch.shared_bytes,
                "axes": dict(task.case(CASE).axes),
            }


def main(argv: Sequence[str] | None = None) -> int:
    made = parser(__doc__ or "")
    made.add_argument("--device", default="gpu:0")
    made.add_argument("--arch", default="sm_89")
    made.add_argument("--iterations", type=int, default=20)
    made.add_argument("--limit", type=int, default=90, help="seconds for the run")
    made.add_argument("--extensions", type=int, default=2, help="kernels that are built as torch extensions")
    made.add_argument("--peer", choices=("kernel_tuner", "extension"), help=argparse.SUPPRESS)
    args = made.parse_args(argv)
    if args.peer:
        given = json.load(sys.stdin)
        print(json.dumps(kernel_tuner(given) if args.peer == "kernel_tuner" else extension(given)))
        return 0
    args.operators, args.seed, args.more = "rules", 1, []
    with tempfile.TemporaryDirectory(prefix="evo-whole-") as scratch:
        folder = Path(scratch)
        root = loop.repository(folder)
        ran = loop.iterate(root, TASK, START, args, folder / "cache")
        figures = loop.figures(ran)
        jobs = list(kernels_of(root, args.device, args.arch))
        say(f"{len(jobs)} kernels of {figures['trials'] + 1} trials")
        environment = {**os.environ, "CUPY_CACHE_DIR": str(folder / "cupy")}
        me = str(Path(__file__).resolve())
        tuner = peer([me, "--peer", "kernel_tuner"], environment, json.dumps(jobs)) if jobs else {"rows": []}
        built = []
        for number, job in enumerate(jobs[-args.extensions :]):
            environment = {**os.environ, "TORCH_EXTENSIONS_DIR": str(folder / f"extension{number}")}
            built.append(peer([me, "--peer", "extension"], environment, json.dumps(job)))
    each = figures["wall_s"] / (figures["trials"] + 1)
    tuned = [row["seconds"] for row in tuner.get("rows", [])]
    bench = [one["seconds"] + one["start_s"] for one in built if "seconds" in one]
    rows = [
        ["evo, whole run", figures["trials"] + 1, f"{each:.2f}", "5 sizes, checked and decided"],
        ["Kernel Tuner, CuPy", len(tuned), f"{statistics.mean(tuned):.2f}" if tuned else None, f"1 size: {CASE}"],
        ["as KernelBench", len(bench), f"{statistics.mean(bench):.2f}" if bench else None, f"1 size: {CASE}"],
    ]
    write_json(args.json, {"evo": figures, "kernel_tuner": tuner, "extension": built})
    print(table(("who", "kernels", "s each", "of what"), rows))
    for one in (tuner, *built):
        if "error" in one:
            say(str(one["error"]))
    return 0


if __name__ == "__main__":
    run(main)
