// p=1 cdist, forward only. We needed one that works on half of the memory...
// pip install -e .   (setup.py uses CUDAExtension)
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAException.h>
#include <torch/library.h>
#include <torch/types.h>

#define CHECK_CUDA(x) TORCH_CHECK((x).is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK((x).is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) \
  CHECK_CUDA(x);       \
  CHECK_CONTIGUOUS(x)

namespace fastdist {
namespace {

constexpr int kThreads = 256;

template <typename scalar_t, typename acc_t>
__global__ void cdist_l1_kernel(
    const scalar_t* __restrict__ x1,
    const scalar_t* __restrict__ x2,
    scalar_t* __restrict__ out,
    const int64_t P,
    const int64_t R,
    const int64_t M,
    const int64_t total) {
  const int64_t idx = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (idx >= total) {
    return;
  }
  const int64_t r = idx % R;
  const int64_t p = (idx / R) % P;
  const int64_t b = idx / (R * P);
  acc_t sum = 0;
  for (int64_t m = 0; m < M; ++m) {
    sum += ::fabs(static_cast<acc_t>(x1[(b * P + p) * M + m]) - static_cast<acc_t>(x2[(b * R + r) * M + m]));
  }
  out[idx] = static_cast<scalar_t>(sum);
}

} // namespace

at::Tensor cdist_l1_cuda(const at::Tensor& x1, const at::Tensor& x2) {
  CHECK_INPUT(x1);
  CHECK_INPUT(x2);
  TORCH_CHECK(x1.dim() == 3 && x2.dim() == 3, "expected 3-D inputs");
  TORCH_CHECK(x1.size(2) == x2.size(2), "feature sizes differ");
  const at::cuda::OptionalCUDAGuard device_guard(device_of(x1));
  const int64_t B = x1.size(0);
  const int64_t P = x1.size(1);
  const int64_t R = x2.size(1);
  const int64_t M = x1.size(2);
  auto out = at::empty({B, P, R}, x1.options());
  const int64_t total = out.numel();
  if (total == 0) {
    return out;
  }
  const dim3 grid((total + kThreads - 1) / kThreads);
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES(x1.scalar_type(), "cdist_l1_cuda", [&] {
    using acc_t = at::acc_type<scalar_t, true>;
    cdist_l1_kernel<scalar_t, acc_t><<<grid, kThreads, 0, stream>>>(
        x1.data_ptr<scalar_t>(), x2.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), P, R, M, total);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

at::Tensor cdist_l1_meta(const at::Tensor& x1, const at::Tensor& x2) {
  return at::empty({x1.size(0), x1.size(1), x2.size(1)}, x1.options());
}

TORCH_LIBRARY(fastdist, m) {
  m.def("cdist_l1(Tensor x1, Tensor x2) -> Tensor");
}

TORCH_LIBRARY_IMPL(fastdist, CUDA, m) {
  m.impl("cdist_l1", &cdist_l1_cuda);
}

TORCH_LIBRARY_IMPL(fastdist, Meta, m) {
  m.impl("cdist_l1", &cdist_l1_meta);
}

} // namespace fastdist
