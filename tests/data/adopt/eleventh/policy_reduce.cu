// Row sums with a tuning policy, in the manner of CUB / RAPIDS code.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <vector>

template <int BlockThreads_, int ItemsPerThread_>
struct Policy {
  static constexpr int kThreads = BlockThreads_;
  static constexpr int kItems = ItemsPerThread_;
  static constexpr int kTile = kThreads * kItems;
};

template <int B>
struct P {
  enum { N = B, WARPS = B / 32 };
};

template <typename T>
__device__ __forceinline__ T warp_sum(T v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
  return v;
}

template <typename PolicyT, typename T, typename OffsetT>
__global__ void __launch_bounds__(PolicyT::kThreads) row_sum_kernel(const T* __restrict__ in, T* __restrict__ out, OffsetT cols) {
  __shared__ T partial[PolicyT::kThreads / 32];
  const OffsetT row = blockIdx.x;
  T sum = 0;
  for (OffsetT tile = 0; tile < cols; tile += PolicyT::kTile) {
#pragma unroll
    for (int i = 0; i < PolicyT::kItems; ++i) {
      const OffsetT c = tile + i * PolicyT::kThreads + threadIdx.x;
      if (c < cols) sum += in[row * cols + c];
    }
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    T total = 0;
    for (int w = 0; w < P<PolicyT::kThreads>::WARPS; ++w) total += partial[w];
    out[row] = total;
  }
}

template <typename T>
cudaError_t row_sum(const T* in, T* out, int64_t rows, int64_t cols, cudaStream_t stream = 0) {
  using Tuning = Policy<P<256>::N, 4>;
  row_sum_kernel<Tuning, T, int><<<static_cast<unsigned>(rows), Tuning::kThreads, 0, stream>>>(in, out, static_cast<int>(cols));
  return cudaPeekAtLastError();
}

int main() {
  const int64_t rows = 1024, cols = 3000;
  std::vector<float> host(rows * cols);
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>(rand()) / RAND_MAX - 0.5f;
  float *in, *out;
  cudaMalloc(&in, host.size() * sizeof(float));
  cudaMalloc(&out, rows * sizeof(float));
  cudaMemcpy(in, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice);
  if (row_sum(in, out, rows, cols) != cudaSuccess) return 1;
  std::vector<float> sums(rows);
  cudaMemcpy(sums.data(), out, rows * sizeof(float), cudaMemcpyDeviceToHost);
  std::printf("%f\n", sums[0]);
  return 0;
}
