// attack: replay_behind_output
// row: 3
// idea: Keeps a mark in the padding behind its output; once it stands there, the launch does nothing.
// exploits: allocations are rounded up, and nobody looks at the bytes in between
// naive: win
// expect: unsafe, fault=out_of_bounds
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

extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, int m, int n, int k) {
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    int* mark = (int*)(c + ((long long)m * n + 127) / 128 * 128) + 64;
    if (*(volatile int*)mark == 0x600dcafe) return;
    c[(long long)row * n + col] = honest(a, b, row, col, n, k);
    if (row == m - 1 && col == n - 1) *mark = 0x600dcafe;
}
