// Depthwise causal convolution along time with SiLU, as state space models use it.
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cstdio>

template <int kWidth>
struct Taps {
    float w[kWidth];
};

template <int kNThreads, int kWidth>
__global__ void causal_conv1d_kernel(const float *__restrict__ x, const float *__restrict__ weight,
                                     const float *__restrict__ bias, float *__restrict__ out, int dim, int seqlen) {
    const int batch = blockIdx.z;
    const int channel = blockIdx.y;
    const int t = blockIdx.x * kNThreads + threadIdx.x;
    if (t >= seqlen) return;
    const float *row = x + (batch * dim + channel) * seqlen;
    float acc = bias[channel];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
        const int s = t - (kWidth - 1) + k;
        if (s >= 0) acc += weight[channel * kWidth + k] * row[s];
    }
    out[(batch * dim + channel) * seqlen + t] = acc / (1.0f + expf(-acc));
}

template <int kWidth>
void launch(const float *x, const float *w, const float *b, float *out, int batch, int dim, int seqlen) {
    constexpr int kNThreads = 128;
    dim3 grid((seqlen + kNThreads - 1) / kNThreads, dim, batch);
    causal_conv1d_kernel<kNThreads, kWidth><<<grid, kNThreads>>>(x, w, b, out, dim, seqlen);
}

void causal_conv1d(const float *x, const float *w, const float *b, float *out, int batch, int dim, int seqlen, int width) {
    switch (width) {
        case 2: launch<2>(x, w, b, out, batch, dim, seqlen); break;
        case 3: launch<3>(x, w, b, out, batch, dim, seqlen); break;
        case 4: launch<4>(x, w, b, out, batch, dim, seqlen); break;
        default: fprintf(stderr, "width %d\n", width);
    }
}

int main() {
    const int batch = 2, dim = 256, seqlen = 1024, width = 4;
    float *x, *w, *b, *out;
    cudaMalloc(&x, batch * dim * seqlen * sizeof(float));
    cudaMalloc(&w, dim * width * sizeof(float));
    cudaMalloc(&b, dim * sizeof(float));
    cudaMalloc(&out, batch * dim * seqlen * sizeof(float));
    causal_conv1d(x, w, b, out, batch, dim, seqlen, width);
    cudaDeviceSynchronize();
    return 0;
}
