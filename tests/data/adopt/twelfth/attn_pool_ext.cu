#include <torch/types.h>
#include <cuda.h>
#include <cuda_runtime.h>

// out[b, d] = sum_t softmax(scores[b])[t] * values[b, t, d], with a padding mask by lengths
__global__ void attention_pool_kernel(
    const float* __restrict__ scores,
    const float* __restrict__ values,
    const int* __restrict__ lengths,
    float* __restrict__ out,
    const int T,
    const int D) {
  const int b = blockIdx.x;
  const int d = blockIdx.y * blockDim.x + threadIdx.x;
  if (d >= D) return;
  const int length = lengths[b];
  float peak = -1e30f;
  for (int t = 0; t < length; ++t) peak = fmaxf(peak, scores[b * T + t]);
  float total = 0.f, sum = 0.f;
  for (int t = 0; t < length; ++t) {
    const float w = __expf(scores[b * T + t] - peak);
    total += w;
    sum += w * values[(b * T + t) * D + d];
  }
  out[b * D + d] = length > 0 ? sum / total : 0.f;
}

torch::Tensor attention_pool(torch::Tensor scores, torch::Tensor values, torch::Tensor lengths) {
  const int B = values.size(0), T = values.size(1), D = values.size(2);
  auto out = torch::zeros({B, D}, values.options());
  const int threads = 128;
  const dim3 grid(B, (D + threads - 1) / threads);
  attention_pool_kernel<<<grid, threads>>>(scores.data_ptr<float>(), values.data_ptr<float>(),
                                           lengths.data_ptr<int>(), out.data_ptr<float>(), T, D);
  return out;
}
