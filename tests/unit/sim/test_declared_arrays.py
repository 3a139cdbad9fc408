"""An index beyond the end of a shared or local array is a fault, though the next array lies there."""

from __future__ import annotations

import numpy as np
import pytest
from harness import run

SHARED = "__shared__ float p[32], q[32]; p[t] = 1; q[t] = 2; __syncthreads(); "
DYNAMIC = "extern __shared__ float p[]; __shared__ float q[32]; p[t] = 1; q[t] = 2; __syncthreads(); "
LOCAL = "float p[8], q[8]; for (int i = 0; i < 8; ++i) { p[i] = i; q[i] = x[i]; } "
CASES = {  # body -> does it leave an array?
    "load": (SHARED + "y[t] = p[t + n] + q[t];", True),
    "store": (SHARED + "p[t + n] = 3; __syncthreads(); y[t] = q[t] + p[t];", True),
    "before": (SHARED + "y[t] = q[t - n] + p[t];", True),
    "one_address": (SHARED + "y[t] = p[11 * n] + q[t];", True),
    "dynamic": (DYNAMIC + "y[t] = p[t - n] + q[t];", True),
    "into_dynamic": (DYNAMIC + "y[t] = p[t] + q[t + n];", True),
    "dynamic_inside": (DYNAMIC + "y[t] = p[31 - t] + q[t ^ n];", False),
    "pointers": (
        SHARED + "float *a = p, *b = q; for (int i = 0; i < n; ++i) { b[t] = a[t] + 1; float* c = a; a = b; b = c; } "
        "float s = 0; __syncthreads(); for (float* c = p; c < p + 32; ++c) s += t ? 0 : *c; y[t] = a[t] + s;",
        False,
    ),
    "local_load": (LOCAL + "y[t] = p[n + 6] + q[n];", True),
    "local_before": (LOCAL + "y[t] = p[n] + q[2 - n];", True),
    "local_inside": (
        LOCAL + "float* a = p + 4; for (int i = 0; i < n; ++i) a[-i] += a[i] + q[i + 5]; y[t] = p[n];",
        False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_index_beyond_an_array(name: str) -> None:
    body, leaves = CASES[name]
    source = f'extern "C" __global__ void k(const float* x, float* y, int n) {{ int t = threadIdx.x; {body} }}'
    shared = 256 if body.startswith(DYNAMIC) else 0
    arrays = [np.arange(32, dtype=np.float32), np.zeros(32, np.float32), np.int32(3)]
    _, result = run(source, "k", arrays, grid=(1,), block=(32,), shared_bytes=shared)
    assert {fault.kind for fault in result.faults} == ({"out_of_bounds"} if leaves else set())
