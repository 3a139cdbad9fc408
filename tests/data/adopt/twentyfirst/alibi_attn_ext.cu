#include <torch/all.h>
#include <torch/library.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_fp16.h>
#include <optional>

#define BOOL_SWITCH(COND, CONST_NAME, ...)        \
  [&] {                                           \
    if (COND) {                                   \
      constexpr static bool CONST_NAME = true;    \
      return __VA_ARGS__();                       \
    } else {                                      \
      constexpr static bool CONST_NAME = false;   \
      return __VA_ARGS__();                       \
    }                                             \
  }()

namespace alibi {

template <typename T, bool kCausal>
__global__ void scores_kernel(const T* __restrict__ q, const T* __restrict__ k, const float* __restrict__ slopes,
                              T* __restrict__ out, int H, int S, int D, float scale) {
  const int bh = blockIdx.z;
  const int i = blockIdx.y * blockDim.y + threadIdx.y;
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= S || j >= S) return;
  float acc = 0.f;
  const T* qr = q + ((int64_t)bh * S + i) * D;
  const T* kr = k + ((int64_t)bh * S + j) * D;
  for (int d = 0; d < D; ++d) acc += static_cast<float>(qr[d]) * static_cast<float>(kr[d]);
  acc = acc * scale + slopes[bh % H] * static_cast<float>(j - i);
  if (kCausal && j > i) acc = -10000.0f;
  out[((int64_t)bh * S + i) * S + j] = static_cast<T>(acc);
}

}  // namespace alibi

at::Tensor alibi_scores(const at::Tensor& q, const at::Tensor& k, const at::Tensor& slopes, bool causal, std::optional<double> scale_opt) {
  TORCH_CHECK(q.is_cuda() && k.is_cuda(), "tensors must be on the GPU");
  TORCH_CHECK(q.dim() == 4);
  const auto sizes = q.sizes();
  const int64_t B = sizes[0], H = sizes[1], S = sizes[2], D = sizes[3];
  at::Tensor out = at::empty({B, H, S, S}, q.options());
  const float scale = scale_opt.has_value() ? static_cast<float>(*scale_opt) : 1.0f / std::sqrt(static_cast<float>(D));
  const dim3 block(16, 16);
  const dim3 grid((S + 15) / 16, (S + 15) / 16, B * H);
  auto stream = c10::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(q.scalar_type(), "alibi_scores", [&] {
    BOOL_SWITCH(causal, kCausal, [&] {
      alibi::scores_kernel<scalar_t, kCausal><<<grid, block, 0, stream>>>(
          q.const_data_ptr<scalar_t>(), k.const_data_ptr<scalar_t>(), slopes.const_data_ptr<float>(),
          out.mutable_data_ptr<scalar_t>(), H, S, D, scale);
    });
  });
  return out;
}

TORCH_LIBRARY_FRAGMENT(alibi, m) { m.def("scores(Tensor q, Tensor k, Tensor slopes, bool causal, float? scale) -> Tensor"); }
TORCH_LIBRARY_IMPL(alibi, CUDA, m) { m.impl("scores", &alibi_scores); }
