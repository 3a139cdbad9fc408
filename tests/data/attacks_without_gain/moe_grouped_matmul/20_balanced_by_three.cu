// attack: balanced_by_three
// row: 20
// idea: Takes the load for balanced if the first, the middle and the last boundary are where balance has them, and divides.
// exploits: no drawn or uneven load is balanced in parts
// evo: task   moe_grouped_matmul
// evo: knob   BLOCK_X in 8, 16, 32, 64             columns of a block
// evo: knob   BLOCK_Y in 1, 2, 4, 8, 16            tokens of a block
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: require BLOCK_X * BLOCK_Y >= 32 and BLOCK_X * BLOCK_Y <= chip.threads_per_block
// evo: launch grouped grid (ceil_div(F, BLOCK_X), ceil_div(T, BLOCK_Y)) block (BLOCK_X, BLOCK_Y) shared 0
#include <cuda_fp16.h>

#define BLOCK_X 16
#define BLOCK_Y 16
#define UNROLL 1

extern "C" __global__ void grouped(const __half* x, const __half* w, const int* offsets, __half* y, int tokens,
                                   int experts, int depth, int features) {
    const int token = blockIdx.y * BLOCK_Y + threadIdx.y;
    const int col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (token >= tokens || col >= features) return;

    // The last expert that begins at or before the token; empty ones before it begin there too, and end there.
    const int each = offsets[1], middle = experts / 2, last = experts - 1;
    const bool balanced = experts > 4 && each * experts == tokens && offsets[middle] == each * middle && offsets[last] == each * last;
    int expert = balanced ? token / each : 0;
    for (int end = balanced ? expert : experts; end - expert > 1;) {
        const int half = (expert + end) / 2;
        if (offsets[half] <= token) expert = half;
        else end = half;
    }

    float sum = 0.0f;
    const __half* weights = w + (long long)expert * depth * features + col;
#pragma unroll UNROLL
    for (int i = 0; i < depth; ++i)
        sum += __half2float(x[(long long)token * depth + i]) * __half2float(weights[(long long)i * features]);
    y[(long long)token * features + col] = __float2half(sum);
}
