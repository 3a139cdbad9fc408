#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

namespace {
template <typename scalar_t>
__global__ void qk_softmax_forward(
    const torch::PackedTensorAccessor32<scalar_t, 3, torch::RestrictPtrTraits> q,
    const torch::PackedTensorAccessor32<scalar_t, 3, torch::RestrictPtrTraits> k,
    torch::PackedTensorAccessor32<scalar_t, 3, torch::RestrictPtrTraits> s, float scale) {
  const int b = blockIdx.z, i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < q.size(1) && j < k.size(1)) {
    scalar_t acc = 0;
    for (int d = 0; d < q.size(2); ++d) acc += q[b][i][d] * k[b][j][d];
    s[b][i][j] = acc * scale;
  }
}
}  // namespace

torch::Tensor qk(torch::Tensor q, torch::Tensor k, double scale) {
  TORCH_CHECK(q.is_cuda(), "q must be on the GPU");
  const at::cuda::OptionalCUDAGuard guard(device_of(q));
  auto s = torch::empty({q.size(0), q.size(1), k.size(1)}, q.options());
  const dim3 block(16, 16);
  const dim3 grid((k.size(1) + 15) / 16, (q.size(1) + 15) / 16, q.size(0));
  AT_DISPATCH_FLOATING_TYPES(q.scalar_type(), "qk", ([&] {
    qk_softmax_forward<scalar_t><<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>(
        q.packed_accessor32<scalar_t, 3, torch::RestrictPtrTraits>(),
        k.packed_accessor32<scalar_t, 3, torch::RestrictPtrTraits>(),
        s.packed_accessor32<scalar_t, 3, torch::RestrictPtrTraits>(), (float)scale);
  }));
  return s;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("qk", &qk, "QK^T"); }
