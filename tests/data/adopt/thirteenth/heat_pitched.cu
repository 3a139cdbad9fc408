// Explicit heat equation on a plate. usage: ./heat [nx] [ny] [steps]
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <utility>
#include <cuda_runtime.h>

#define CUDA_CHECK(call)                                                              \
    do {                                                                              \
        cudaError_t err__ = (call);                                                   \
        if (err__ != cudaSuccess) {                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err__)); \
            exit(EXIT_FAILURE);                                                       \
        }                                                                             \
    } while (0)

__global__ void heat_step(const float* __restrict__ u, float* __restrict__ v, size_t pitch, int nx, int ny, float c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= nx || j >= ny) return;
    const float* row = (const float*)((const char*)u + j * pitch);
    float* out = (float*)((char*)v + j * pitch);
    if (i == 0 || j == 0 || i == nx - 1 || j == ny - 1) {
        out[i] = row[i];
        return;
    }
    const float* up = (const float*)((const char*)u + (j - 1) * pitch);
    const float* down = (const float*)((const char*)u + (j + 1) * pitch);
    out[i] = row[i] + c * (row[i - 1] + row[i + 1] + up[i] + down[i] - 4.0f * row[i]);
}

int main(int argc, char** argv) {
    int nx = argc > 1 ? atoi(argv[1]) : 1024;
    int ny = argc > 2 ? atoi(argv[2]) : 768;
    int steps = argc > 3 ? atoi(argv[3]) : 500;
    float* h = (float*)malloc(nx * ny * sizeof(float));
    for (int j = 0; j < ny; ++j)
        for (int i = 0; i < nx; ++i) h[j * nx + i] = (j == 0) ? 100.0f : sinf(0.01f * i);

    float *u, *v;
    size_t pitch;
    CUDA_CHECK(cudaMallocPitch(&u, &pitch, nx * sizeof(float), ny));
    CUDA_CHECK(cudaMallocPitch(&v, &pitch, nx * sizeof(float), ny));
    CUDA_CHECK(cudaMemcpy2D(u, pitch, h, nx * sizeof(float), nx * sizeof(float), ny, cudaMemcpyHostToDevice));

    dim3 block(16, 16);
    dim3 grid((nx + block.x - 1) / block.x, (ny + block.y - 1) / block.y);
    cudaEvent_t start, stop;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    CUDA_CHECK(cudaEventRecord(start));
    for (int s = 0; s < steps; ++s) {
        heat_step<<<grid, block>>>(u, v, pitch, nx, ny, 0.2f);
        std::swap(u, v);
    }
    CUDA_CHECK(cudaEventRecord(stop));
    CUDA_CHECK(cudaEventSynchronize(stop));
    CUDA_CHECK(cudaGetLastError());
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
    printf("%d steps in %.3f ms\n", steps, ms);
    CUDA_CHECK(cudaMemcpy2D(h, nx * sizeof(float), u, pitch, nx * sizeof(float), ny, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(u));
    CUDA_CHECK(cudaFree(v));
    free(h);
    return 0;
}
