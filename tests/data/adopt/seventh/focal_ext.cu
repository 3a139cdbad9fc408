#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) \
  CHECK_CUDA(x);       \
  CHECK_CONTIGUOUS(x)

const int NUM_THREADS = 256;

template <typename scalar_t>
__global__ void sigmoid_focal_loss_kernel(const int64_t numel, const scalar_t* __restrict__ logits,
                                          const int64_t* __restrict__ targets, const scalar_t* __restrict__ weight,
                                          const float gamma, const float alpha, const int num_classes,
                                          scalar_t* __restrict__ losses) {
  for (int64_t index = blockIdx.x * blockDim.x + threadIdx.x; index < numel; index += blockDim.x * gridDim.x) {
    const int n = index / num_classes;
    const int c = index % num_classes;
    const int t = targets[n];
    const scalar_t flag_p = (t == c);
    const scalar_t flag_n = (t != c);
    const scalar_t p = 1. / (1. + expf(-logits[index]));
    const scalar_t term_p = powf(1. - p, gamma) * logf(max(p, (scalar_t)1e-12));
    const scalar_t term_n = powf(p, gamma) * logf(max(1. - p, (scalar_t)1e-12));
    scalar_t loss = -flag_p * alpha * term_p;
    loss += -flag_n * (1. - alpha) * term_n;
    losses[index] = loss * weight[c];
  }
}

at::Tensor sigmoid_focal_loss(at::Tensor logits, at::Tensor targets, at::Tensor weight, double gamma, double alpha) {
  CHECK_INPUT(logits);
  CHECK_INPUT(targets);
  CHECK_INPUT(weight);
  const at::cuda::CUDAGuard guard(logits.device());
  const auto num_samples = logits.size(0);
  const auto num_classes = logits.size(1);
  auto losses = at::empty({num_samples, num_classes}, logits.options());
  const auto numel = num_samples * num_classes;
  const dim3 grid(std::min(at::ceil_div(numel, (int64_t)NUM_THREADS), (int64_t)4096));
  AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "sigmoid_focal_loss", [&] {
    sigmoid_focal_loss_kernel<scalar_t><<<grid, NUM_THREADS, 0, at::cuda::getCurrentCUDAStream()>>>(
        numel, logits.data_ptr<scalar_t>(), targets.data_ptr<int64_t>(), weight.data_ptr<scalar_t>(), gamma, alpha,
        num_classes, losses.data_ptr<scalar_t>());
  });
  AT_CUDA_CHECK(cudaGetLastError());
  return losses;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("sigmoid_focal_loss", &sigmoid_focal_loss, "sigmoid focal loss (CUDA)");
}
