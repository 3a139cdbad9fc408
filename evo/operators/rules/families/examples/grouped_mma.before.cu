// evo: task grouped_mma
// evo: launch experts grid (ceil_div(F, 32), ceil_div(T, 8)) block (32, 8) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void experts(const half* x, const half* w, const int* expert_of, half* y, int T, int E, int D, int F) {
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    int t = blockIdx.y * blockDim.y + threadIdx.y;
    if (t >= T || f >= F) return;
    int e = expert_of[t];
    float sum = 0.0f;
    for (int d = 0; d < D; d++)
        sum += __half2float(x[t * D + d]) * __half2float(w[(e * D + d) * F + f]);
    y[t * F + f] = __float2half(sum);
}
