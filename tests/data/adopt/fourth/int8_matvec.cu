// Quantised matrix-vector product: int8 weights, a scale for each row (CUDA forum answer)
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>

constexpr int WARP = 32;

__global__ void qgemv(const int8_t* __restrict__ W, const float* __restrict__ scale, const int8_t* __restrict__ x,
                      float xs, float* __restrict__ y, int rows, int cols)
{
    const int row = blockIdx.x;
    int acc = 0;
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        acc += static_cast<int>(W[static_cast<size_t>(row) * cols + c]) * static_cast<int>(x[c]);
    extern __shared__ int partial[];
    partial[threadIdx.x] = acc;
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[row] = partial[0] * scale[row] * xs;
}

void qgemv_launch(const int8_t* W, const float* scale, const int8_t* x, float xs, float* y, int rows, int cols, int threads = 4 * WARP)
{
    qgemv<<<rows, threads, threads * sizeof(int)>>>(W, scale, x, xs, y, rows, cols);
}

int main()
{
    int rows = 1024, cols = 1024;
    int8_t *W, *x;
    float *scale, *y;
    cudaMallocManaged(&W, sizeof(int8_t) * rows * cols);
    cudaMallocManaged(&x, sizeof(*x) * cols);
    cudaMallocManaged(&scale, sizeof(float) * rows);
    cudaMallocManaged(&y, sizeof(float) * rows);
    for (int i = 0; i < rows * cols; ++i) W[i] = (int8_t)(i % 255 - 127);
    for (int i = 0; i < cols; ++i) x[i] = (int8_t)(i % 17);
    for (int i = 0; i < rows; ++i) scale[i] = 0.01f;
    qgemv_launch(W, scale, x, 0.5f, y, rows, cols);
    cudaDeviceSynchronize();
    printf("%f\n", y[0]);
    return cudaFree(W) || cudaFree(x) || cudaFree(scale) || cudaFree(y);
}
