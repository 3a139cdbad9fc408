"""Random kernels whose threads exchange values through shared or global memory, step by step; and the same, broken.

Each step stores by one order of the threads, meets, and loads by another order: within warps or across them. The broken
kernel lacks one meeting that its loads need, or has a weaker one in its place.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

THREADS = 128
# What a meeting of all threads may be replaced by, and what a meeting of each warp may: none orders what it must.
WEAKER = {
    "block": ["", "__syncwarp();", "__threadfence();", "__threadfence_block();", "__shfl_sync(~0u, v, 0);",
              "__syncwarp(); __threadfence_block();"],
    "warp": ["", "__threadfence_block();", "__syncwarp(t & 1 ? 0xaaaaaaaau : 0x55555555u);", "__any_sync(~0u, v > 7);"],
}  # fmt: skip
MEETS = {"block": "__syncthreads();", "warp": "__syncwarp();"}


@dataclass
class Exchange:
    """text: the correct kernel. broken: the one with a race. expected: what the correct one leaves in y."""

    text: str
    broken: str
    expected: NDArray[np.int32]


def _order(rng: random.Random, reach: str) -> tuple[str, NDArray[np.int64]]:
    """A permutation of the threads that moves each of them, within its warp or out of it."""
    t = np.arange(THREADS)
    if reach == "warp":
        flip = rng.randrange(32) | 1  # to a lane of the other parity, so that a meeting of half the lanes is too few
        return f"(t ^ {flip})", t ^ flip
    turn = 32 * rng.randrange(1, THREADS // 32) + rng.randrange(32)
    return f"((t + {turn}) % {THREADS})", (t + turn) % THREADS


def make(seed: int) -> Exchange:
    """The kernels of a seed: `k(const int* x, int* y, int* work)`, one block of THREADS threads."""
    rng = random.Random(seed)
    steps = rng.randrange(2, 6)
    wrong = rng.randrange(steps)
    values = np.arange(THREADS, dtype=np.int64) * 3 + 1
    lines: list[list[str]] = [[], []]
    for step in range(steps):
        reach = rng.choice(["block", "warp"])
        memory = rng.choice(["shared", "global"])
        place, moved = _order(rng, reach)
        buffer = f"s[{step}]" if memory == "shared" else f"(work + {step * THREADS})"
        casts = [rng.choice(["", "(volatile int*)"]) for _ in range(2)]
        store, load = (f"({cast}{buffer})" for cast in casts)
        meet = MEETS[reach] if rng.random() < 0.8 else MEETS["block"]
        weaker = rng.choice(WEAKER[reach])
        guard = rng.choice(["", f"if (t != {rng.randrange(THREADS)}) "])
        for kernel, between in enumerate((meet, weaker if step == wrong else meet)):
            lines[kernel] += [f"{store}[t] = v;", between, f"{guard}v = v * 2 + {load}[{place}];", f"v += {step};"]
        loaded = values * 2 + values[moved]
        if guard:
            left = int(guard.split("!= ")[1].rstrip(") "))
            loaded[left] = values[left]
        values = loaded + step
    head = 'extern "C" __global__ void k(const int* x, int* y, int* work) {\n'
    head += f"  __shared__ int s[{steps}][{THREADS}];\n  int t = threadIdx.x, v = x[t];\n"
    texts = [head + "".join(f"  {line}\n" for line in body if line) + "  y[t] = v;\n}\n" for body in lines]
    return Exchange(texts[0], texts[1], values.astype(np.int32))
