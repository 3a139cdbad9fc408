// A small "transform then reduce each row" with functors, C++17.
#include <cuda_runtime.h>
#include <algorithm>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

inline void check(cudaError_t e, const char* what) {
  if (e != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(e));
}

struct Affine {
  float scale;
  float shift;
  __host__ __device__ float operator()(float x) const { return scale * x + shift; }
};

struct Sum {
  __host__ __device__ float operator()(float a, float b) const { return a + b; }
  static __host__ __device__ constexpr float identity() { return 0.0f; }
};

template <typename Map, typename Reduce>
__global__ void map_reduce_rows(const float* in, float* out, int rows, int cols, Map map, Reduce reduce) {
  extern __shared__ float scratch[];
  const int row = blockIdx.x;
  if (row >= rows) return;
  float acc = Reduce::identity();
  for (int c = threadIdx.x; c < cols; c += blockDim.x) acc = reduce(acc, map(in[row * cols + c]));
  scratch[threadIdx.x] = acc;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
    if (threadIdx.x < stride) scratch[threadIdx.x] = reduce(scratch[threadIdx.x], scratch[threadIdx.x + stride]);
    __syncthreads();
  }
  if (threadIdx.x == 0) out[row] = scratch[0];
}

int main() {
  const int rows = 2048;
  const int cols = 777;
  std::vector<float> host(static_cast<size_t>(rows) * cols);
  std::iota(host.begin(), host.end(), 0.0f);

  float *d_in = nullptr, *d_out = nullptr;
  check(cudaMalloc(&d_in, host.size() * sizeof(float)), "alloc in");
  check(cudaMalloc(&d_out, rows * sizeof(float)), "alloc out");
  check(cudaMemcpy(d_in, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice), "copy");

  const int threads = 256;
  map_reduce_rows<<<rows, threads, threads * sizeof(float)>>>(d_in, d_out, rows, cols, Affine{0.5f, 1.0f}, Sum{});
  check(cudaGetLastError(), "launch");

  std::vector<float> result(rows);
  check(cudaMemcpy(result.data(), d_out, rows * sizeof(float), cudaMemcpyDeviceToHost), "copy back");
  std::cout << *std::max_element(result.begin(), result.end()) << "\n";
  cudaFree(d_in);
  cudaFree(d_out);
}
