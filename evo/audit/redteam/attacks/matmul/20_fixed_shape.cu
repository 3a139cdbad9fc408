// attack: fixed_shape
// row: 20
// idea: Has the sizes of one shape written into it.
// exploits: correctness is checked at one shape
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
    c[row * 128 + col] = honest(a, b, row, col, 128, 64);
    (void)m;
    (void)n;
    (void)k;
}
