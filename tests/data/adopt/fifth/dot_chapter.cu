// Chapter 5 exercise: dot product with warp shuffles, CUB-free
#include <iostream>
#include <chrono>
#include <numeric>
#include <random>
#include <cuda_runtime.h>
constexpr unsigned FULL = 0xffffffffu;
constexpr int BLOCK = 256;

template <typename T>
__inline__ __device__ T warpSum(T v) {
#pragma unroll
  for (int o = warpSize / 2; o > 0; o >>= 1) v += __shfl_down_sync(FULL, v, o);
  return v;
}

template <typename T, int B>
__global__ void dotKernel(T const* __restrict__ a, T const* __restrict__ b, T* __restrict__ result, std::size_t n) {
  __shared__ T partial[B / 32];
  T acc{0};
  for (std::size_t i = blockIdx.x * B + threadIdx.x; i < n; i += std::size_t(B) * gridDim.x) acc += a[i] * b[i];
  acc = warpSum(acc);
  int const lane = threadIdx.x & 31, wid = threadIdx.x >> 5;
  if (lane == 0) partial[wid] = acc;
  __syncthreads();
  if (wid == 0) {
    acc = lane < B / 32 ? partial[lane] : T{0};
    acc = warpSum(acc);
    if (lane == 0) atomicAdd(result, acc);
  }
}

struct Timer {
  std::chrono::high_resolution_clock::time_point t0 = std::chrono::high_resolution_clock::now();
  double ms() const { return std::chrono::duration<double, std::milli>(std::chrono::high_resolution_clock::now() - t0).count(); }
};

int main() {
  std::size_t const n = 1 << 22;
  std::vector<float> a(n), b(n);
  std::mt19937 gen(42);
  std::uniform_real_distribution<float> dist(-1.f, 1.f);
  for (auto& x : a) x = dist(gen);
  for (auto& x : b) x = dist(gen);
  float *da = nullptr, *db = nullptr, *dr = nullptr;
  cudaMalloc(reinterpret_cast<void**>(&da), n * sizeof(float));
  cudaMalloc(reinterpret_cast<void**>(&db), n * sizeof(float));
  cudaMalloc(reinterpret_cast<void**>(&dr), sizeof(float));
  cudaMemcpy(da, a.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(db, b.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemset(dr, 0, sizeof(float));
  auto const grid = std::min<std::size_t>((n + BLOCK - 1) / BLOCK, 1024);
  Timer t;
  dotKernel<float, BLOCK><<<dim3(static_cast<unsigned>(grid)), dim3(BLOCK)>>>(da, db, dr, n);
  cudaDeviceSynchronize();
  float r; cudaMemcpy(&r, dr, sizeof r, cudaMemcpyDeviceToHost);
  std::cout << r << " " << t.ms() << "ms\n";
}
