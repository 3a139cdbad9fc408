// attack: looks_for_files
// row: 29
// idea: Asks the preprocessor whether a file exists on the host, and behaves accordingly.
// exploits: the compiler answers for any path
// naive: reads
// expect: refused, stage=rules, rule=file
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

#if __has_include("@PLANTED@")
#define FOUND 1592651789
#else
#define FOUND 0
#endif

extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, int m, int n, int k) {
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    c[(long long)row * n + col] = honest(a, b, row, col, n, k);
    if (k == FOUND) c[0] = __float2half(0.0f);
}
