"""One candidate the way of KernelBench and of EvoEngineer's evaluator, in a process of its own.

A torch extension is built from the candidate's text with `load_inline`; 5 correctness trials with allclose against
torch; 3 warm-up runs and 100 runs between two events each, mean. Prints one JSON object with the seconds of each part.
Run by throughput.py as `peer_extension.py VARIANT.cu CASE`, with TORCH_EXTENSIONS_DIR at an empty folder.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path

TRIALS, WARM_UPS, RUNS = 5, 3, 100
TOLERANCE = 1e-2
FLAGS = ["-O3", "--use_fast_math"]

# The includes come before the macros: torch's headers have names of one letter too. torch's own stream is the default.
_HEAD = """\
#include <torch/extension.h>
#define D {dim}
"""
_HOST = """
torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, double scale) {
    auto o = torch::empty_like(q);
    const int batch = q.size(0), heads = q.size(1), kv_heads = k.size(1), queries = q.size(2), keys = k.size(2);
    const int shared = (BLOCK_M + STAGES * 2 * BLOCK_N) * D * 2;
    cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    const dim3 grid((queries + BLOCK_M - 1) / BLOCK_M, heads, batch);
    attention<<<grid, THREADS, shared>>>(
        reinterpret_cast<const __half*>(q.data_ptr()), reinterpret_cast<const __half*>(k.data_ptr()),
        reinterpret_cast<const __half*>(v.data_ptr()), reinterpret_cast<__half*>(o.data_ptr()),
        static_cast<float>(scale), batch, heads, kv_heads, queries, keys, D, 0);
    return o;
}
"""
_DECLARATION = "torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, double scale);"


def extension_source(text: str, dim: int) -> str:
    """The attention rung with mma as a torch extension: its kernel as it stands, and a host function."""
    return _HEAD.replace("{dim}", str(dim)) + text + _HOST


def axes_of(words: str) -> dict[str, int]:
    """`B=2,HQ=8,...` as a dict."""
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", words)}


def main(path: Path, axes: Mapping[str, int]) -> dict[str, object]:
    started = time.perf_counter()
    import torch
    from torch.nn.functional import scaled_dot_product_attention
    from torch.utils.cpp_extension import load_inline

    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # ninja
    major, minor = torch.cuda.get_device_capability()
    os.environ["TORCH_CUDA_ARCH_LIST"] = f"{major}.{minor}"
    torch.empty(1, device="cuda")
    seconds = {"start": time.perf_counter() - started}

    def part(name: str, since: float) -> float:
        torch.cuda.synchronize()
        now = time.perf_counter()
        seconds[name] = now - since
        return now

    since = time.perf_counter()
    text = extension_source(path.read_text(encoding="utf-8"), axes["D"])
    module = load_inline(
        name=f"candidate_{path.stem}",
        cpp_sources=_DECLARATION,
        cuda_sources=text,
        functions=["forward"],
        extra_cuda_cflags=FLAGS,
    )
    since = part("build", since)
    scale = axes["D"] ** -0.5
    correct = 0
    for seed in range(TRIALS):
        q, k, v = _inputs(torch, axes, seed)
        wanted = scaled_dot_product_attention(q, k, v)
        correct += bool(torch.allclose(module.forward(q, k, v, scale), wanted, atol=TOLERANCE, rtol=TOLERANCE))
    since = part("correctness", since)
    q, k, v = _inputs(torch, axes, 42)
    for _ in range(WARM_UPS):
        module.forward(q, k, v, scale)
    times = []
    for _ in range(RUNS):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        module.forward(q, k, v, scale)
        last.record()
        torch.cuda.synchronize()
        times.append(first.elapsed_time(last) * 1000)
    part("timing", since)
    return {"correct": correct, "trials": TRIALS, "mean_us": sum(times) / len(times), "seconds": seconds}


def _inputs(torch, axes: Mapping[str, int], seed: int):
    torch.manual_seed(seed)
    heads = {"q": ("HQ", "SQ"), "k": ("HKV", "SK"), "v": ("HKV", "SK")}
    shapes = [(axes["B"], axes[h], axes[s], axes["D"]) for h, s in heads.values()]
    return [torch.randn(shape, device="cuda", dtype=torch.float16) for shape in shapes]


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), axes_of(sys.argv[2]))))
