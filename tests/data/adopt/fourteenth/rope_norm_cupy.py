"""Fused RMSNorm of query heads followed by rotary embedding, as one CuPy RawModule."""

import cupy as cp
import numpy as np

SOURCE = r"""
template <int HEAD_DIM>
__global__ void qk_norm_rope(float* x, const float* weight, const float* cos_table, const float* sin_table,
                             int tokens, int heads, float eps)
{
    int head = blockIdx.x * blockDim.y + threadIdx.y;   // over tokens * heads
    if (head >= tokens * heads) return;
    int token = head / heads;
    float* row = x + (size_t)head * HEAD_DIM;
    float sum = 0.f;
    for (int i = threadIdx.x; i < HEAD_DIM; i += 32) sum += row[i] * row[i];
    for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    float scale = rsqrtf(sum / HEAD_DIM + eps);
    for (int i = threadIdx.x; i < HEAD_DIM / 2; i += 32) {
        float a = row[i] * scale * weight[i];
        float b = row[i + HEAD_DIM / 2] * scale * weight[i + HEAD_DIM / 2];
        float c = cos_table[token * (HEAD_DIM / 2) + i];
        float s = sin_table[token * (HEAD_DIM / 2) + i];
        row[i] = a * c - b * s;
        row[i + HEAD_DIM / 2] = a * s + b * c;
    }
}
"""

HEAD_DIM = 128
module = cp.RawModule(code=SOURCE, options=("-std=c++17",), name_expressions=[f"qk_norm_rope<{HEAD_DIM}>"])
kernel = module.get_function(f"qk_norm_rope<{HEAD_DIM}>")


def norm_rope_(x, weight, cos, sin, eps=1e-6):
    tokens, heads, head_dim = x.shape
    assert head_dim == HEAD_DIM
    warps = 4
    blocks = -(-tokens * heads // warps)
    kernel((blocks,), (32, warps), (x, weight, cos, sin, np.int32(tokens), np.int32(heads), np.float32(eps)))
    return x


def tables(tokens, base=10000.0):
    inverse = 1.0 / base ** (cp.arange(0, HEAD_DIM, 2, dtype=cp.float32) / HEAD_DIM)
    angles = cp.outer(cp.arange(tokens, dtype=cp.float32), inverse)
    return cp.cos(angles), cp.sin(angles)


if __name__ == "__main__":
    tokens, heads = 2048, 16
    x = cp.random.standard_normal((tokens, heads, HEAD_DIM), dtype=cp.float32)
    weight = cp.ones(HEAD_DIM, dtype=cp.float32)
    cos, sin = tables(tokens)
    print(norm_rope_(x, weight, cos, sin)[0, 0, :4])
