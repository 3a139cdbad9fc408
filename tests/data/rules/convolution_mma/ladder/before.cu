// evo: task convolution_mma
// evo: launch conv grid (ceil_div(K, 32), ceil_div(N * (H - R + 1) * (W - S + 1), 8)) block (32, 8) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void conv(const half* x, const half* w, const half* bias, half* y, int N, int H, int W, int C, int K, int R, int S) {
    int P = H - R + 1, Q = W - S + 1;
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    int pixel = blockIdx.y * blockDim.y + threadIdx.y;
    if (k >= K || pixel >= N * P * Q) return;
    int q = pixel % Q, p = pixel / Q % P, n = pixel / (Q * P);
    float sum = 0.0f;
    for (int r = 0; r < R; r++)
        for (int s = 0; s < S; s++)
            for (int c = 0; c < C; c++)
                sum += __half2float(w[((r * S + s) * C + c) * K + k]) * __half2float(x[((n * H + p + r) * W + q + s) * C + c]);
    y[pixel * K + k] = __float2half(fmaxf(sum + __half2float(bias[k]), 0.0f));
}
