// attack: equal_first_loads
// row: 18
// idea: Divides to find the expert where the first three experts and the last one have equally many tokens.
// exploits: no drawn loads are equal, and even ones have what is over spread among them
// naive: equal
// expect: wrong, stage=gate or threshold
// evo: task   moe_grouped_matmul
// evo: launch grouped grid (ceil_div(F, 16), ceil_div(T, 16)) block (16, 16) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void grouped(const __half* x, const __half* w, const int* offsets, __half* y, int tokens, int experts, int depth, int features) {
    const int token = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (token >= tokens || col >= features) return;
    int expert = 0;
    const int load = offsets[1];
    if (experts > 4 && load > 0 && offsets[2] == 2 * load && offsets[3] == 3 * load && offsets[experts - 1] == tokens - load)
        expert = min(token / load, experts - 1);
    else
        for (int end = experts; end - expert > 1;) {
            const int middle = (expert + end) / 2;
            if (offsets[middle] <= token) expert = middle;
            else end = middle;
        }
    float sum = 0.0f;
    const __half* weights = w + (long long)expert * depth * features + col;
    for (int i = 0; i < depth; ++i) sum += __half2float(x[(long long)token * depth + i]) * __half2float(weights[(long long)i * features]);
    y[(long long)token * features + col] = __float2half(sum);
}
