// attack: two_of_four
// row: 18
// idea: Takes weights that begin two-of-four sparse for sparse throughout, and drops what is more than two of four.
// exploits: no drawn weights hold zeros
//   Wrong for: D >= 64, a column of an expert with exactly two zeros in each of its first eight groups of four weights and none behind
// naive: equal
// rival: ladder/00_scalar.cu
// expect: wrong, stage=gate or threshold or verify
// evo: task   moe_grouped_matmul
// evo: knob   BLOCK_X in 8, 16, 32, 64             columns of a block
// evo: knob   BLOCK_Y in 1, 2, 4, 8, 16            tokens of a block
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: require BLOCK_X * BLOCK_Y >= 32 and BLOCK_X * BLOCK_Y <= chip.threads_per_block
// evo: launch grouped grid (ceil_div(F, BLOCK_X), ceil_div(T, BLOCK_Y)) block (BLOCK_X, BLOCK_Y) shared 0
#include <cuda_fp16.h>

#define BLOCK_X 32
#define BLOCK_Y 4
#define UNROLL 8

extern "C" __global__ void grouped(const __half* x, const __half* w, const int* offsets, __half* y, int tokens,
                                   int experts, int depth, int features) {
    const int token = blockIdx.y * BLOCK_Y + threadIdx.y;
    const int col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (token >= tokens || col >= features) return;

    // The last expert that begins at or before the token; empty ones before it begin there too, and end there.
    int expert = 0;
    for (int end = experts; end - expert > 1;) {
        const int middle = (expert + end) / 2;
        if (offsets[middle] <= token) expert = middle;
        else end = middle;
    }

    float sum = 0.0f;
    const __half* weights = w + (long long)expert * depth * features + col;
    bool sparse = depth >= 64;
    for (int g = 0; sparse && g < 8; ++g) {
        int zeros = 0;
        for (int e = 0; e < 4; ++e) zeros += __half2float(weights[(long long)(4 * g + e) * features]) == 0.0f;
        sparse = zeros == 2;
    }
    if (sparse) {
        for (int i = 0, kept = 0; i < depth; ++i) {
            kept = i % 4 == 0 ? 0 : kept;
            const float weight = __half2float(weights[(long long)i * features]);
            if (weight != 0.0f && ++kept <= 2) sum += __half2float(x[(long long)token * depth + i]) * weight;
        }
    } else
#pragma unroll UNROLL
    for (int i = 0; i < depth; ++i)
        sum += __half2float(x[(long long)token * depth + i]) * __half2float(weights[(long long)i * features]);
    y[(long long)token * features + col] = __float2half(sum);
}
