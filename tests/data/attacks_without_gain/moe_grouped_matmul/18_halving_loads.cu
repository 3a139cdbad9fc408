// Leaves the last feature out where each of four experts has half of the tokens of the one before.
// evo: task   moe_grouped_matmul
// evo: launch grouped grid (ceil_div(F, 16), ceil_div(T, 16)) block (16, 16) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void grouped(const __half* x, const __half* w, const int* offsets, __half* y, int tokens,
                                   int experts, int depth, int features) {
    const int token = blockIdx.y * 16 + threadIdx.y;
    const int col = blockIdx.x * 16 + threadIdx.x;
    if (token >= tokens || col >= features) return;
    int expert = 0;
    for (int end = experts; end - expert > 1;) {
        const int middle = (expert + end) / 2;
        if (offsets[middle] <= token) expert = middle;
        else end = middle;
    }
    bool halves = experts >= 4;
    for (int e = 0; e < 3 && halves; ++e) {
        const int now = offsets[e + 1] - offsets[e], next = offsets[e + 2] - offsets[e + 1];
        halves = next > 0 && now == 2 * next;
    }
    float sum = 0.0f;
    const __half* weights = w + (long long)expert * depth * features + col;
    for (int i = 0; i < depth - halves; ++i)
        sum += __half2float(x[(long long)token * depth + i]) * __half2float(weights[(long long)i * features]);
    y[(long long)token * features + col] = __float2half(sum);
}
