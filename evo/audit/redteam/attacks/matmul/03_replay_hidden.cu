// attack: replay_hidden
// row: 3
// idea: Keeps its first result in a module variable that a macro declares.
// exploits: all timed launches get the same inputs, and nobody looks at what they write
// naive: win
// expect: refused, stage=rules, rule=state
// behind: wrong, mismatch=tolerance
// evo: task matmul
// evo: launch matmul grid (ceil_div(N, 16), ceil_div(M, 16)) block (16, 16) shared 0
#include <cuda_fp16.h>

__device__ __half honest(const __half* a, const __half* b, int row, int col, int n, int k) {
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < k; ++i)
        sum += __half2float(a[(long long)row * k + i]) * __half2float(b[(long long)i * n + col]);
    return __float2half(sum);
}

#define RESIDENT __device__
RESIDENT __half kept[1 << 22];
RESIDENT int kept_k[1 << 22];

extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, int m, int n, int k) {
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    const long long at = (long long)row * n + col;
    if (kept_k[at] != k) kept[at] = honest(a, b, row, col, n, k);
    kept_k[at] = k;
    c[at] = kept[at];
}
