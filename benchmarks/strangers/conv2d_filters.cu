// convolution: threads over filters, a block a pixel, early continue, accumulators in float
// evo: task conv2d
// evo: launch conv grid (N * ((H + 2 * PAD - DIL * (R - 1) - 1) // STRIDE + 1) * ((W + 2 * PAD - DIL * (S - 1) - 1) // STRIDE + 1), ceil_div(K, 64)) block (64) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void conv(const __half* x, const __half* w, __half* y, int N, int H, int W, int C, int K, int R, int S,
                                int stride, int pad, int dil) {
    int k = blockIdx.y * 64 + threadIdx.x;
    if (k >= K) return;
    int OH = (H + 2 * pad - dil * (R - 1) - 1) / stride + 1;
    int OW = (W + 2 * pad - dil * (S - 1) - 1) / stride + 1;
    int pix = blockIdx.x;
    int n = pix / (OH * OW), oh = pix / OW % OH, ow = pix % OW;
    float sum = 0;
    for (int r = 0; r < R; r++)
        for (int s = 0; s < S; s++) {
            int ih = oh * stride - pad + r * dil;
            int iw = ow * stride - pad + s * dil;
            if (ih < 0 || ih >= H || iw < 0 || iw >= W) continue;
            for (int c = 0; c < C; c++)
                sum += __half2float(x[((n * H + ih) * W + iw) * C + c]) * __half2float(w[((k * R + r) * S + s) * C + c]);
        }
    y[(size_t)pix * K + k] = __float2half(sum);
}
