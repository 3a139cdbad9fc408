#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <vector>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

template <typename scalar_t>
__global__ void bn_relu_forward_kernel(
    const scalar_t* __restrict__ input,
    const scalar_t* __restrict__ weight,
    const scalar_t* __restrict__ bias,
    const scalar_t* __restrict__ running_mean,
    const scalar_t* __restrict__ running_var,
    scalar_t* __restrict__ output,
    const int channels, const int spatial, const int total, const float eps) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < total) {
    const int c = (index / spatial) % channels;
    const scalar_t inv_std = rsqrtf(running_var[c] + eps);
    scalar_t value = (input[index] - running_mean[c]) * inv_std * weight[c] + bias[c];
    output[index] = value > 0 ? value : scalar_t(0);
  }
}

torch::Tensor bn_relu_cuda_forward(torch::Tensor input, torch::Tensor weight, torch::Tensor bias,
                                   torch::Tensor running_mean, torch::Tensor running_var, double eps) {
  CHECK_INPUT(input);
  CHECK_INPUT(weight);
  const auto batch = input.size(0);
  const auto channels = input.size(1);
  const auto height = input.size(2);
  const auto width = input.size(3);
  auto output = torch::empty_like(input);
  const int threads = 1024;
  const int total = batch * channels * height * width;
  const int blocks = (total + threads - 1) / threads;
  AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "bn_relu_forward", ([&] {
    bn_relu_forward_kernel<scalar_t><<<blocks, threads>>>(
        input.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(),
        running_mean.data_ptr<scalar_t>(), running_var.data_ptr<scalar_t>(), output.data_ptr<scalar_t>(),
        channels, height * width, total, static_cast<float>(eps));
  }));
  return output;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &bn_relu_cuda_forward, "BatchNorm + ReLU forward (CUDA)");
}
