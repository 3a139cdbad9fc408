// GELU (tanh approximation), four elements per thread.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>

#define FLOAT4(value) (reinterpret_cast<float4*>(&(value))[0])
#define SQRT_2_PI 0.7978845608028654f

__device__ __forceinline__ float gelu(float x) {
    float cube = 0.044715f * x * x * x;
    return 0.5f * x * (1.0f + tanhf(SQRT_2_PI * (x + cube)));
}

__global__ void gelu_f32x4(float* x, float* y, int N) {
    int idx = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (idx < N) {
        float4 reg_x = FLOAT4(x[idx]);
        float4 reg_y;
        reg_y.x = gelu(reg_x.x);
        reg_y.y = gelu(reg_x.y);
        reg_y.z = gelu(reg_x.z);
        reg_y.w = gelu(reg_x.w);
        FLOAT4(y[idx]) = reg_y;
    }
}

int main() {
    constexpr int N = 1024 * 1024;
    size_t size = N * sizeof(float);
    float *x_host = (float*)malloc(size), *x_device, *y_device, *y_host = (float*)malloc(size);
    for (int i = 0; i < N; i++) x_host[i] = (float)rand() / RAND_MAX * 4 - 2;
    cudaMalloc((void**)&x_device, size);
    cudaMalloc((void**)&y_device, size);
    cudaMemcpy(x_device, x_host, size, cudaMemcpyHostToDevice);
    int block_size = 256;
    int grid_size = (N / 4 + block_size - 1) / block_size;
    gelu_f32x4<<<grid_size, block_size>>>(x_device, y_device, N);
    cudaMemcpy(y_host, y_device, size, cudaMemcpyDeviceToHost);
    printf("%f\n", y_host[0]);
    return 0;
}
