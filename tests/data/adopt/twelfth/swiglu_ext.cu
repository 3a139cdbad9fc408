#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

template <typename scalar_t>
__device__ __forceinline__ scalar_t silu(scalar_t x) {
  return x / (scalar_t(1) + exp(-x));
}

// gate_up: [tokens, 2 * hidden], the gate first
template <typename scalar_t>
__global__ void swiglu_forward_kernel(const scalar_t* __restrict__ gate_up, const scalar_t* __restrict__ bias,
                                      scalar_t* __restrict__ out, int64_t tokens, int64_t hidden) {
  const int64_t token = blockIdx.x;
  for (int64_t h = threadIdx.x; h < hidden; h += blockDim.x) {
    const scalar_t gate = gate_up[token * 2 * hidden + h] + bias[h];
    const scalar_t up = gate_up[token * 2 * hidden + hidden + h] + bias[hidden + h];
    out[token * hidden + h] = silu(gate) * up;
  }
}

torch::Tensor swiglu_forward(torch::Tensor gate_up, torch::Tensor bias) {
  CHECK_INPUT(gate_up);
  CHECK_INPUT(bias);
  const at::cuda::OptionalCUDAGuard guard(device_of(gate_up));
  const auto tokens = gate_up.size(0);
  const auto hidden = gate_up.size(1) / 2;
  TORCH_CHECK(bias.numel() == 2 * hidden, "bias does not fit");
  auto out = torch::empty({tokens, hidden}, gate_up.options());
  const int threads = 64;
  const dim3 blocks(tokens);
  AT_DISPATCH_FLOATING_TYPES(gate_up.scalar_type(), "swiglu_forward", ([&] {
    swiglu_forward_kernel<scalar_t><<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
        gate_up.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), tokens, hidden);
  }));
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &swiglu_forward, "SwiGLU forward (CUDA)", py::arg("gate_up"), py::arg("bias"));
}
