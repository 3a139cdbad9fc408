// Homework 3: bilinear upscaling by a factor of two.
#include <stdio.h>
#include <stdlib.h>

#define BLOCK_W 32
#define BLOCK_H 8

__device__ __forceinline__ int clampi(int v, int lo, int hi) { return v < lo ? lo : (v > hi ? hi : v); }

__global__ void upscale2x(const float* src, float* dst, int rows, int cols) {
    int x = blockIdx.x * BLOCK_W + threadIdx.x;
    int y = blockIdx.y * BLOCK_H + threadIdx.y;
    if (x >= 2 * cols || y >= 2 * rows) return;
    float fx = (x + 0.5f) * 0.5f - 0.5f;
    float fy = (y + 0.5f) * 0.5f - 0.5f;
    int x0 = (int)floorf(fx), y0 = (int)floorf(fy);
    float ax = fx - x0, ay = fy - y0;
    int xa = clampi(x0, 0, cols - 1), xb = clampi(x0 + 1, 0, cols - 1);
    int ya = clampi(y0, 0, rows - 1), yb = clampi(y0 + 1, 0, rows - 1);
    float top = (1 - ax) * src[ya * cols + xa] + ax * src[ya * cols + xb];
    float bottom = (1 - ax) * src[yb * cols + xa] + ax * src[yb * cols + xb];
    dst[y * (2 * cols) + x] = (1 - ay) * top + ay * bottom;
}

int main() {
    const int rows = 480, cols = 640;
    const size_t in_bytes = rows * cols * sizeof(float);
    const size_t out_bytes = 4 * in_bytes;
    float *src, *dst;
    float* host = (float*)malloc(in_bytes);
    float* result = (float*)malloc(out_bytes);
    for (int i = 0; i < rows * cols; ++i) host[i] = (i % 255) / 255.0f;
    cudaMalloc((void**)&src, in_bytes);
    cudaMalloc((void**)&dst, out_bytes);
    cudaMemcpy(src, host, in_bytes, cudaMemcpyHostToDevice);
    dim3 threads(BLOCK_W, BLOCK_H);
    dim3 blocks((2 * cols + BLOCK_W - 1) / BLOCK_W, (2 * rows + BLOCK_H - 1) / BLOCK_H);
    upscale2x<<<blocks, threads>>>(src, dst, rows, cols);
    cudaDeviceSynchronize();
    cudaMemcpy(result, dst, out_bytes, cudaMemcpyDeviceToHost);
    printf("%f\n", result[0]);
    cudaFree(src); cudaFree(dst);
    free(host); free(result);
}
