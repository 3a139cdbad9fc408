// attack: ghost_branch
// row: 24
// idea: Announces a fast branch that no shape ever takes; what runs is the baseline.
// exploits: whatever is not slower is taken, and nobody asks whether a branch is ever reached
// naive: equal
// expect: correct, revert
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
    if (m == 31 && n == 37 && k == 41) {  // "tensor cores": never reached
        c[(long long)row * n + col] = __hmul(a[row], b[col]);
        return;
    }
    c[(long long)row * n + col] = honest(a, b, row, col, n, k);
}
