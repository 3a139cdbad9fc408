// attack: spills
// row: F11
// idea: Caps its registers at 32 with launch bounds while it holds 64 sums: they spill to local memory.
// exploits: the spills stand in a report that nobody reads
// gate: spill_bytes == 0
// expect: refused, stage=metrics
// evo: task matmul
// evo: launch matmul grid (ceil_div(N, 2048), ceil_div(M, 32)) block (32, 32) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(1024, 2) matmul(const __half* a, const __half* b, __half* c,
                                                                int m, int n, int k) {
    float sum[64] = {};
    const int row = blockIdx.y * 32 + threadIdx.y;
    const int first = blockIdx.x * 2048 + threadIdx.x;
    if (row >= m) return;
    for (int i = 0; i < k; ++i) {
        const float left = __half2float(a[(long long)row * k + i]);
#pragma unroll
        for (int e = 0; e < 64; ++e)
            if (first + 32 * e < n) sum[e] += left * __half2float(b[(long long)i * n + first + 32 * e]);
    }
#pragma unroll
    for (int e = 0; e < 64; ++e)
        if (first + 32 * e < n) c[(long long)row * n + first + 32 * e] = __float2half(sum[e]);
}
