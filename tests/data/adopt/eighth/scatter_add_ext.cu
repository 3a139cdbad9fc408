#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

// out[index[e]] += src[e] * w[e]: messages of a graph network gathered at their target nodes.
__global__ void scatter_add_kernel(const float* __restrict__ src, const int64_t* __restrict__ index,
                                   const float* __restrict__ w, float* __restrict__ out, int64_t E, int64_t F) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= E * F) return;
  int64_t e = i / F, f = i % F;
  atomicAdd(out + index[e] * F + f, src[i] * w[e]);
}

torch::Tensor scatter_add_(torch::Tensor out, torch::Tensor index, torch::Tensor src, torch::Tensor w) {
  TORCH_CHECK(out.is_cuda() && src.is_contiguous());
  const at::cuda::CUDAGuard guard(out.device());
  const int64_t E = src.size(0);
  const int64_t F = src.size(1);
  constexpr int threads = 256;
  const int blocks = (E * F + threads - 1) / threads;
  scatter_add_kernel<<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
      src.data_ptr<float>(), index.data_ptr<int64_t>(), w.data_ptr<float>(), out.data_ptr<float>(), E, F);
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scatter_add_", &scatter_add_, "scatter add"); }
