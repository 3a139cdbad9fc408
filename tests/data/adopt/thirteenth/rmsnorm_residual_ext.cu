#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

template <typename scalar_t>
__global__ void rmsnorm_residual_kernel(
    const scalar_t* __restrict__ input,
    const scalar_t* __restrict__ residual,
    const scalar_t* __restrict__ weight,
    scalar_t* __restrict__ output,
    scalar_t* __restrict__ residual_out,
    const int hidden_size,
    const float epsilon) {
  const int row = blockIdx.x;
  const scalar_t* x = input + row * hidden_size;
  const scalar_t* r = residual + row * hidden_size;
  __shared__ float shared[32];
  float local = 0.0f;
  for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) {
    const float v = static_cast<float>(x[i]) + static_cast<float>(r[i]);
    residual_out[row * hidden_size + i] = static_cast<scalar_t>(v);
    local += v * v;
  }
  for (int offset = 16; offset > 0; offset >>= 1) local += __shfl_down_sync(0xffffffff, local, offset);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = local;
  __syncthreads();
  if (threadIdx.x < 32) {
    local = threadIdx.x < blockDim.x / 32 ? shared[threadIdx.x] : 0.0f;
    for (int offset = 16; offset > 0; offset >>= 1) local += __shfl_down_sync(0xffffffff, local, offset);
    if (threadIdx.x == 0) shared[0] = rsqrtf(local / hidden_size + epsilon);
  }
  __syncthreads();
  const float scale = shared[0];
  for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) {
    const float v = static_cast<float>(x[i]) + static_cast<float>(r[i]);
    output[row * hidden_size + i] = static_cast<scalar_t>(v * scale * static_cast<float>(weight[i]));
  }
}

std::vector<torch::Tensor> rmsnorm_residual(torch::Tensor input, torch::Tensor residual, torch::Tensor weight, double epsilon) {
  CHECK_INPUT(input);
  CHECK_INPUT(residual);
  CHECK_INPUT(weight);
  TORCH_CHECK(input.dim() == 2, "expected [tokens, hidden]");
  TORCH_CHECK(input.size(1) == weight.size(0), "weight does not match");
  const at::cuda::OptionalCUDAGuard device_guard(device_of(input));
  const int tokens = input.size(0);
  const int hidden = input.size(1);
  auto output = torch::empty_like(input);
  auto residual_out = torch::empty_like(input);
  const dim3 grid(tokens);
  const dim3 block(std::min(hidden, 256));
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(input.scalar_type(), "rmsnorm_residual", ([&] {
    rmsnorm_residual_kernel<scalar_t><<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>(
        input.data_ptr<scalar_t>(), residual.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(),
        output.data_ptr<scalar_t>(), residual_out.data_ptr<scalar_t>(), hidden, static_cast<float>(epsilon));
  }));
  return {output, residual_out};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("rmsnorm_residual", &rmsnorm_residual, "RMSNorm with residual (CUDA)");
}
