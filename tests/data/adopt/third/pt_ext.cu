#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <vector>

namespace {
template <typename scalar_t>
__device__ __forceinline__ scalar_t sigmoid(scalar_t z) {
  return 1.0 / (1.0 + exp(-z));
}

template <typename scalar_t>
__global__ void gated_forward_kernel(
    const scalar_t* __restrict__ gate,
    const scalar_t* __restrict__ value,
    scalar_t* __restrict__ out,
    scalar_t* __restrict__ saved,
    size_t state_size) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int index = blockIdx.y * state_size + column;
  if (column < state_size) {
    saved[index] = sigmoid(gate[index]);
    out[index] = saved[index] * value[index];
  }
}
} // namespace

#define CHECK_CUDA(x) TORCH_CHECK(x.type().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

std::vector<torch::Tensor> gated_cuda_forward(torch::Tensor gate, torch::Tensor value) {
  CHECK_INPUT(gate);
  CHECK_INPUT(value);
  const auto batch_size = gate.size(0);
  const auto state_size = gate.size(1);
  auto out = torch::zeros_like(gate);
  auto saved = torch::zeros_like(gate);

  const int threads = 1024;
  const dim3 blocks((state_size + threads - 1) / threads, batch_size);

  AT_DISPATCH_FLOATING_TYPES(gate.type(), "gated_forward_cuda", ([&] {
    gated_forward_kernel<scalar_t><<<blocks, threads>>>(
        gate.data<scalar_t>(),
        value.data<scalar_t>(),
        out.data<scalar_t>(),
        saved.data<scalar_t>(),
        state_size);
  }));
  return {out, saved};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &gated_cuda_forward, "forward (CUDA)"); }
