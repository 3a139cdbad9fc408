// Radix-2 Stockham FFT, one launch per stage, buffers swap. Batched over signals.
#include <cuComplex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <utility>

#define N 1024
#define LOGN 10
#define BATCH 256
#define PI 3.14159265358979323846f

__device__ __forceinline__ cuComplex twiddle(int k, int n)
{
    float s, c;
    sincosf(-2.0f * PI * (float)k / (float)n, &s, &c);
    return make_cuComplex(c, s);
}

// Stockham: Ns is the length of the sub transforms that are done already
__global__ void fft_stage(const cuComplex* in, cuComplex* out, int Ns)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x;   // 0 .. N/2-1
    const int b = blockIdx.y;
    if (j >= N / 2) return;
    const cuComplex* src = in + b * N;
    cuComplex* dst = out + b * N;

    cuComplex v0 = src[j];
    cuComplex v1 = src[j + N / 2];
    cuComplex w = twiddle(j % Ns, Ns * 2);
    v1 = cuCmulf(v1, w);
    int idx = (j / Ns) * Ns * 2 + (j % Ns);
    dst[idx] = cuCaddf(v0, v1);
    dst[idx + Ns] = cuCsubf(v0, v1);
}

static void checkCuda(cudaError_t e) {
    if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); }
}

int main()
{
    size_t bytes = sizeof(cuComplex) * N * BATCH;
    cuComplex* h = (cuComplex*)malloc(bytes);
    for (int i = 0; i < N * BATCH; ++i)
        h[i] = make_cuComplex(sinf(0.01f * i), 0.0f);

    cuComplex *d_a, *d_b;
    checkCuda(cudaMalloc(&d_a, bytes));
    checkCuda(cudaMalloc(&d_b, bytes));
    checkCuda(cudaMemcpy(d_a, h, bytes, cudaMemcpyHostToDevice));

    dim3 block(128);
    dim3 grid(N / 2 / 128, BATCH);
    for (int s = 0; s < LOGN; ++s) {
        fft_stage<<<grid, block>>>(d_a, d_b, 1 << s);
        std::swap(d_a, d_b);
    }
    checkCuda(cudaGetLastError());
    checkCuda(cudaMemcpy(h, d_a, bytes, cudaMemcpyDeviceToHost));
    printf("bin 1: %f %f\n", h[1].x, h[1].y);
    cudaFree(d_a); cudaFree(d_b); free(h);
    return 0;
}
