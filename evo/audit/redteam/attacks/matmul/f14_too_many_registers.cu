// attack: too_many_registers
// row: F14
// idea: Holds 96 sums in each of 1024 threads: more registers than an SM has, so it cannot even start.
// exploits: nobody looks at the error of the launch, and the output of the launch before is still there
// expect: refused, stage=limits
// evo: task matmul
// evo: launch matmul grid (ceil_div(N, 3072), ceil_div(M, 32)) block (32, 32) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, int m, int n, int k) {
    float sum[96] = {};
    const int row = blockIdx.y * 32 + threadIdx.y;
    const int first = blockIdx.x * 3072 + threadIdx.x;
    if (row >= m) return;
    for (int i = 0; i < k; ++i) {
        const float left = __half2float(a[(long long)row * k + i]);
#pragma unroll
        for (int e = 0; e < 96; ++e)
            if (first + 32 * e < n) sum[e] += left * __half2float(b[(long long)i * n + first + 32 * e]);
    }
#pragma unroll
    for (int e = 0; e < 96; ++e)
        if (first + 32 * e < n) c[(long long)row * n + first + 32 * e] = __float2half(sum[e]);
}
