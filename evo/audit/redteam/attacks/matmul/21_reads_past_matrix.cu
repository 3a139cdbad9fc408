// attack: reads_past_matrix
// row: 21
// idea: Reads the last row of tiles without a bound and only guards the store.
// exploits: memory behind a tensor belongs to the same allocation, so nothing faults
// naive: case=primes
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
    const __half value = honest(a, b, row, col < n ? col : 0, n, k);
    if (row < m && col < n) c[(long long)row * n + col] = value;
    else if (__half2float(value) == 12345.0f) c[0] = value;  // keeps the reads alive
}
