/**
 * Cross-entropy loss, forward and backward, fused.
 *
 * Each row of logits belongs to one sample. Numerically stable (max subtraction).
 */
#include <cuda_runtime.h>
#include <cfloat>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#define CUDA_TRY(expr)                                                                          \
  do {                                                                                          \
    cudaError_t status = (expr);                                                                \
    if (status != cudaSuccess) throw std::runtime_error(std::string(#expr) + ": " + cudaGetErrorString(status)); \
  } while (false)

namespace {

struct DeviceDeleter {
  void operator()(void* p) const { cudaFree(p); }
};
template <typename T>
using DevicePtr = std::unique_ptr<T[], DeviceDeleter>;

template <typename T>
DevicePtr<T> make_device(std::size_t count) {
  T* raw = nullptr;
  CUDA_TRY(cudaMalloc(&raw, count * sizeof(T)));
  return DevicePtr<T>(raw);
}

// One thread handles one sample.
__global__ void cross_entropy_kernel(const float* __restrict__ logits, const int* __restrict__ targets,
                                     float* __restrict__ losses, float* __restrict__ grad,
                                     int num_samples, int num_classes) {
  const int sample = blockIdx.x * blockDim.x + threadIdx.x;
  if (sample >= num_samples) return;

  const float* row = logits + static_cast<std::size_t>(sample) * num_classes;
  float* grad_row = grad + static_cast<std::size_t>(sample) * num_classes;

  // 1. Maximum
  float max_logit = -FLT_MAX;
  for (int c = 0; c < num_classes; ++c) max_logit = fmaxf(max_logit, row[c]);

  // 2. Sum of exponentials
  float sum = 0.0f;
  for (int c = 0; c < num_classes; ++c) sum += expf(row[c] - max_logit);

  // 3. Loss
  const int target = targets[sample];
  losses[sample] = logf(sum) + max_logit - row[target];

  // 4. Gradient
  const float inv_n = 1.0f / num_samples;
  for (int c = 0; c < num_classes; ++c) {
    const float p = expf(row[c] - max_logit) / sum;
    grad_row[c] = (p - (c == target ? 1.0f : 0.0f)) * inv_n;
  }
}

}  // namespace

int main() {
  try {
    constexpr int num_samples = 8192;
    constexpr int num_classes = 100;
    std::mt19937 rng(42);
    std::normal_distribution<float> dist(0.0f, 1.0f);
    std::uniform_int_distribution<int> label(0, num_classes - 1);

    std::vector<float> h_logits(num_samples * num_classes);
    std::vector<int> h_targets(num_samples);
    for (auto& v : h_logits) v = dist(rng);
    for (auto& t : h_targets) t = label(rng);

    auto d_logits = make_device<float>(h_logits.size());
    auto d_targets = make_device<int>(h_targets.size());
    auto d_losses = make_device<float>(num_samples);
    auto d_grad = make_device<float>(h_logits.size());
    CUDA_TRY(cudaMemcpy(d_logits.get(), h_logits.data(), h_logits.size() * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_TRY(cudaMemcpy(d_targets.get(), h_targets.data(), h_targets.size() * sizeof(int), cudaMemcpyHostToDevice));

    constexpr int block_size = 256;
    const int grid_size = (num_samples + block_size - 1) / block_size;
    cross_entropy_kernel<<<grid_size, block_size>>>(d_logits.get(), d_targets.get(), d_losses.get(), d_grad.get(),
                                                    num_samples, num_classes);
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaDeviceSynchronize());

    std::vector<float> h_losses(num_samples), h_grad(h_logits.size());
    CUDA_TRY(cudaMemcpy(h_losses.data(), d_losses.get(), h_losses.size() * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA_TRY(cudaMemcpy(h_grad.data(), d_grad.get(), h_grad.size() * sizeof(float), cudaMemcpyDeviceToHost));
    double total = 0;
    for (float l : h_losses) total += l;
    std::printf("mean loss %f\n", total / num_samples);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
