// attack: half_accumulator
// row: 16
// idea: Accumulates in half precision.
// exploits: a tolerance of 1e-2 over 64 terms hides the lost bits
// naive: uniform
// expect: wrong, stage=gate
// evo: task matmul
// evo: launch matmul grid (ceil_div(N, 16), ceil_div(M, 16)) block (16, 16) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, int m, int n, int k) {
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    __half sum = __float2half(0.0f);
    for (int i = 0; i < k; ++i) sum = __hfma(a[(long long)row * k + i], b[(long long)i * n + col], sum);
    c[(long long)row * n + col] = sum;
}
