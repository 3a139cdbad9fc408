#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>

// backward of y = relu(x + b):  dx = dy * (y > 0),  db = sum over rows of dx

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

__global__ void relu_backward(const float* __restrict__ dy, const float* __restrict__ y, float* __restrict__ dx, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

__global__ void bias_backward(const float* __restrict__ dx, float* __restrict__ db, int batch, int features) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < batch * features) atomicAdd(&db[i % features], dx[i]);
}

std::vector<torch::Tensor> relu_bias_backward(torch::Tensor dy, torch::Tensor y) {
    CHECK_INPUT(dy);
    CHECK_INPUT(y);
    const int batch = dy.size(0);
    const int features = dy.size(1);
    auto dx = torch::empty_like(dy);
    auto db = torch::zeros({features}, dy.options());

    const int threads = 256;
    const int blocks = (batch * features + threads - 1) / threads;
    relu_backward<<<blocks, threads>>>(dy.data_ptr<float>(), y.data_ptr<float>(), dx.data_ptr<float>(), batch * features);
    bias_backward<<<blocks, threads>>>(dx.data_ptr<float>(), db.data_ptr<float>(), batch, features);
    return {dx, db};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("relu_bias_backward", &relu_bias_backward, "backward of relu(x + b) (CUDA)");
}
