// attack: twin_experts
// row: 18
// idea: Takes an expert whose first weights are those of the expert before it for the same expert.
// exploits: no two drawn experts begin alike
// naive: win
// expect: wrong, stage=gate or threshold or verify
// evo: task   moe_grouped_matmul
// evo: knob   TILE in 8, 16, 32
// evo: knob   PAD in 0, 1, 4                       words added to a row of a tile
// evo: require TILE * TILE <= chip.threads_per_block
// evo: launch grouped grid (ceil_div(F, TILE), T // TILE + min(T, E)) block (TILE, TILE) shared 0
#include <cuda_fp16.h>

#define TILE 16
#define PAD 0

extern "C" __global__ void grouped(const __half* x, const __half* w, const int* offsets, __half* y, int tokens,
                                   int experts, int depth, int features) {
    __shared__ float x_tile[TILE][TILE + PAD];
    __shared__ float w_tile[TILE][TILE + PAD];
    const int i = threadIdx.x;
    const int j = threadIdx.y;

    // Tiles are numbered expert by expert: step over the experts whose tiles come before this block's.
    int expert = 0;
    int first_token = 0;
    int end = 0;
    int tile = blockIdx.y;
    for (; expert < experts; ++expert) {
        first_token = offsets[expert];
        end = min(offsets[expert + 1], tokens);
        const int tiles = (end - first_token + TILE - 1) / TILE;
        if (tile < tiles) break;
        tile -= tiles;
    }
    if (expert == experts) return;
    const int token = first_token + tile * TILE + j;
    const int col = blockIdx.x * TILE + i;
    const __half* weights = w + (long long)expert * depth * features;

    if (expert > 0 && features > 3) {
        const __half* before = weights - (long long)depth * features;
        bool same = true;
        for (int f = 0; f < 4; ++f) same = same && __half2float(before[f]) == __half2float(weights[f]);
        if (same) weights = before;
    }
    float sum = 0.0f;
    for (int first = 0; first < depth; first += TILE) {
        // Zeros outside the matrices add nothing, so the inner loop needs no bounds.
        x_tile[j][i] = token < end && first + i < depth ? __half2float(x[(long long)token * depth + first + i]) : 0.0f;
        w_tile[j][i] = first + j < depth && col < features
                           ? __half2float(weights[(long long)(first + j) * features + col])
                           : 0.0f;
        __syncthreads();
#pragma unroll
        for (int d = 0; d < TILE; ++d) sum += x_tile[j][d] * w_tile[d][i];
        __syncthreads();  // the tiles have been read by all
    }
    if (token < end && col < features) y[(long long)token * features + col] = __float2half(sum);
}
