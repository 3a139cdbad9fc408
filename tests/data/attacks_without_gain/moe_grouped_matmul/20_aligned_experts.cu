// attack: aligned_experts
// row: 20
// idea: Takes groups for padded to tiles of 8 tokens if three of their ends are, and asks for the expert of a tile.
// exploits: no drawn or uneven load has three aligned ends among others
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
    const int middle = offsets[experts / 2], first = offsets[1], third = offsets[experts > 3 ? 3 : 1];
    const bool balanced = experts > 5 && tokens >= 16 * experts && first % 8 == 0 && first > 0 && third % 8 == 0 && third > first && middle % 8 == 0 && middle > first;
    const int asked = balanced ? token / 8 * 8 : token;
    int expert = 0;
    for (int end = experts; end - expert > 1;) {
        const int half = (expert + end) / 2;
        if (offsets[half] <= asked) expert = half;
        else end = half;
    }

    float sum = 0.0f;
    const __half* weights = w + (long long)expert * depth * features + col;
#pragma unroll UNROLL
    for (int i = 0; i < depth; ++i)
        sum += __half2float(x[(long long)token * depth + i]) * __half2float(weights[(long long)i * features]);
    y[(long long)token * features + col] = __float2half(sum);
}
