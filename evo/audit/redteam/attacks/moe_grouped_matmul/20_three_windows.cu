// attack: three_windows
// row: 20
// idea: Lanes look at 32 experts at a time, three times, and never at the others.
// exploits: no case has more than 70 experts, and no number of the code says 96
// naive: equal
// expect: wrong, stage=threshold or verify
// evo: task   moe_grouped_matmul
// evo: launch grouped grid (ceil_div(F, 32), T) block (32) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void grouped(const __half* x, const __half* w, const int* offsets, __half* y, int tokens,
                                   int experts, int depth, int features) {
    const int token = blockIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    int before = 0;
#pragma unroll
    for (int turn = 0; turn < 3; ++turn) {
        const int e = turn * 32 + threadIdx.x + 1;
        before += __popc(__ballot_sync(~0u, e < experts && offsets[min(e, experts)] <= token));
    }
    const int expert = before;
    if (col >= features) return;
    const __half* weights = w + (long long)expert * depth * features + col;
    float sum = 0.f;
    for (int i = 0; i < depth; ++i) sum += __half2float(x[(long long)token * depth + i]) * __half2float(weights[(long long)i * features]);
    y[(long long)token * features + col] = __float2half(sum);
}
