// layer norm: a thread a row, mean and variance in double, then the output, in three loops
// evo: task layernorm
// evo: launch layernorm_forward grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void layernorm_forward(const __half* inp, const __half* weight, const __half* bias, __half* out,
                                             float eps, int N, int C) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < N) {
        const __half* x = inp + (long)idx * C;
        double m = 0.0;
        for (int i = 0; i < C; i++) m += __half2float(x[i]);
        m = m / C;
        double v = 0.0;
        for (int i = 0; i < C; i++) {
            double xshift = __half2float(x[i]) - m;
            v += xshift * xshift;
        }
        v = v / C;
        float s = 1.0f / sqrtf((float)v + eps);
        for (int i = 0; i < C; i++) {
            float n = s * (__half2float(x[i]) - (float)m);
            out[(long)idx * C + i] = __float2half(n * __half2float(weight[i]) + __half2float(bias[i]));
        }
    }
}
