#include <cuda_runtime.h>
#include <cstddef>

// Gradient of LeakyReLU, in place on the gradient. From a small training framework.
namespace nn {
namespace {
constexpr int kThreads = 512;

template <typename scalar_t>
__device__ inline scalar_t d_leaky(scalar_t x, scalar_t slope) {
    return x > scalar_t(0) ? scalar_t(1) : slope;
}

template <typename scalar_t>
__global__ void leaky_relu_backward_kernel(scalar_t* __restrict__ grad, const scalar_t* __restrict__ input,
                                           const scalar_t slope, const size_t size) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) grad[i] *= d_leaky(input[i], slope);
}
}  // namespace

void leaky_relu_backward(float* grad, const float* input, float slope, size_t size, cudaStream_t stream) {
    const int blocks = static_cast<int>((size + kThreads - 1) / kThreads);
    leaky_relu_backward_kernel<float><<<blocks, kThreads, 0, stream>>>(grad, input, slope, size);
}
}  // namespace nn
