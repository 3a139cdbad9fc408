// grouped product: a warp of columns a token, linear search for the expert
// evo: task moe_grouped_matmul
// evo: knob WIDE in 32, 64, 128
// evo: launch experts grid (ceil_div(F, WIDE), T) block (WIDE) shared 0
#include <cuda_fp16.h>
#define WIDE 64
extern "C" __global__ void experts(const __half* x, const __half* w, const int* offsets, __half* y, int T, int E, int D,
                                   int F) {
    const int f = blockIdx.x * WIDE + threadIdx.x, t = blockIdx.y;
    if (f >= F) return;
    int e = 0;
    while (e + 1 < E && offsets[e + 1] <= t) ++e;
    float sum = 0.0f;
    for (int d = 0; d < D; ++d) sum += __half2float(x[t * D + d]) * __half2float(w[((size_t)e * D + d) * F + f]);
    y[(size_t)t * F + f] = __float2half(sum);
}
