// micro benchmark: three ways to do a row-wise L2 normalisation
#include <cuda_runtime.h>
#include <cstdio>
#include <vector>
#include <string>
#include <functional>
#include <utility>

#define CUDA_CHECK(x)                                                        \
    do {                                                                     \
        cudaError_t e_ = (x);                                                \
        if (e_ != cudaSuccess) {                                             \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); \
            std::exit(1);                                                    \
        }                                                                    \
    } while (0)

__global__ void l2norm_naive(const float* x, float* y, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0.f;
    for (int c = 0; c < cols; ++c) s += x[r * cols + c] * x[r * cols + c];
    float inv = rsqrtf(s + 1e-12f);
    for (int c = 0; c < cols; ++c) y[r * cols + c] = x[r * cols + c] * inv;
}

__global__ void l2norm_block(const float* x, float* y, int rows, int cols)
{
    __shared__ float buf[256];
    int r = blockIdx.x;
    float s = 0.f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) s += x[r * cols + c] * x[r * cols + c];
    buf[threadIdx.x] = s;
    __syncthreads();
    for (int o = blockDim.x / 2; o > 0; o /= 2) {
        if (threadIdx.x < o) buf[threadIdx.x] += buf[threadIdx.x + o];
        __syncthreads();
    }
    float inv = rsqrtf(buf[0] + 1e-12f);
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[r * cols + c] = x[r * cols + c] * inv;
}

template <typename Kernel, typename... Args>
float timeit(const char* name, Kernel kernel, dim3 grid, dim3 block, Args... args)
{
    cudaEvent_t a, b;
    CUDA_CHECK(cudaEventCreate(&a));
    CUDA_CHECK(cudaEventCreate(&b));
    kernel<<<grid, block>>>(args...);  // warm up
    CUDA_CHECK(cudaEventRecord(a));
    for (int i = 0; i < 20; ++i) kernel<<<grid, block>>>(std::forward<Args>(args)...);
    CUDA_CHECK(cudaEventRecord(b));
    CUDA_CHECK(cudaEventSynchronize(b));
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, a, b));
    printf("%-20s %8.3f us\n", name, ms / 20 * 1000);
    return ms / 20;
}

int main()
{
    const int rows = 4096, cols = 768;
    std::vector<float> h(rows * cols);
    for (size_t i = 0; i < h.size(); ++i) h[i] = (i * 37 % 101) / 50.0f - 1.0f;
    float *x, *y;
    CUDA_CHECK(cudaMalloc(&x, h.size() * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&y, h.size() * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(x, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
    timeit("naive", l2norm_naive, dim3((rows + 127) / 128), dim3(128), x, y, rows, cols);
    timeit("block", l2norm_block, dim3(rows), dim3(256), x, y, rows, cols);
    CUDA_CHECK(cudaMemcpy(h.data(), y, h.size() * sizeof(float), cudaMemcpyDeviceToHost));
    printf("%f\n", h[0]);
}
