// Segment mean pooling over variable length sequences (used in the jagged embedding model).
// built with torch.utils.cpp_extension.load(name="segpool", sources=["gather_pool_ext.cu"])
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <vector>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

namespace {

template <typename scalar_t>
__global__ void segment_mean_kernel(
    const scalar_t* __restrict__ values,    // [total, dim]
    const int64_t* __restrict__ offsets,    // [batch + 1]
    scalar_t* __restrict__ output,          // [batch, dim]
    const int64_t batch,
    const int64_t dim) {
  const int64_t b = blockIdx.x;
  const int64_t d = blockIdx.y * blockDim.x + threadIdx.x;
  if (b >= batch || d >= dim) return;

  const int64_t begin = offsets[b];
  const int64_t end = offsets[b + 1];
  float acc = 0.f;
  for (int64_t i = begin; i < end; ++i) {
    acc += static_cast<float>(values[i * dim + d]);
  }
  const int64_t count = end - begin;
  output[b * dim + d] = static_cast<scalar_t>(count > 0 ? acc / static_cast<float>(count) : 0.f);
}

}  // namespace

torch::Tensor segment_mean_cuda(torch::Tensor values, torch::Tensor offsets) {
  CHECK_INPUT(values);
  CHECK_INPUT(offsets);
  const at::cuda::OptionalCUDAGuard device_guard(device_of(values));

  const auto batch = offsets.size(0) - 1;
  const auto dim = values.size(1);
  auto output = torch::empty({batch, dim}, values.options());

  const int threads = 128;
  const dim3 blocks(batch, (dim + threads - 1) / threads);

  AT_DISPATCH_FLOATING_TYPES_AND_HALF(values.scalar_type(), "segment_mean_cuda", ([&] {
    segment_mean_kernel<scalar_t><<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
        values.data_ptr<scalar_t>(),
        offsets.data_ptr<int64_t>(),
        output.data_ptr<scalar_t>(),
        batch,
        dim);
  }));
  return output;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("segment_mean", &segment_mean_cuda, "segment mean (CUDA)");
}
