// Per-row absmax quantisation to int8. The scales go back to the host for dequantisation.
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

__global__ void quantize_rows(const float* __restrict__ x, int8_t* __restrict__ q, float* __restrict__ scales, int cols) {
    int row = blockIdx.x;
    __shared__ float s_max;
    if (threadIdx.x == 0) {
        float m = 0.f;
        for (int i = 0; i < cols; i++) m = fmaxf(m, fabsf(x[row * cols + i]));
        s_max = m;
        scales[row] = m / 127.f;
    }
    __syncthreads();
    float inv = s_max > 0.f ? 127.f / s_max : 0.f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float v = rintf(x[row * cols + i] * inv);
        q[row * cols + i] = (int8_t)fminf(fmaxf(v, -127.f), 127.f);
    }
}

static void check(cudaError_t e) {
    if (e != cudaSuccess) { printf("CUDA error: %s\n", cudaGetErrorString(e)); exit(1); }
}

int main(int argc, char** argv) {
    int rows = 1024, cols = 1024;
    if (argc == 3) { rows = atoi(argv[1]); cols = atoi(argv[2]); }
    size_t n = (size_t)rows * cols;
    float* x = (float*)malloc(n * sizeof(float));
    int8_t* q = (int8_t*)malloc(n);
    float* scales = (float*)malloc(rows * sizeof(float));
    for (size_t i = 0; i < n; i++) x[i] = (float)rand() / RAND_MAX - 0.5f;
    float *d_x, *d_s;
    int8_t* d_q;
    check(cudaMalloc(&d_x, n * sizeof(float)));
    check(cudaMalloc(&d_q, n * sizeof(int8_t)));
    check(cudaMalloc(&d_s, rows * sizeof(float)));
    check(cudaMemcpy(d_x, x, n * sizeof(float), cudaMemcpyHostToDevice));
    quantize_rows<<<rows, 128>>>(d_x, d_q, d_s, cols);
    check(cudaGetLastError());
    check(cudaMemcpy(q, d_q, n, cudaMemcpyDeviceToHost));
    check(cudaMemcpy(scales, d_s, rows * sizeof(float), cudaMemcpyDeviceToHost));
    printf("scale of the first row: %f\n", scales[0]);
    return 0;
}
