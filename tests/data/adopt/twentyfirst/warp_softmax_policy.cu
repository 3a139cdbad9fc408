// softmax over small rows: one warp per row, elements in registers. C++17, header style of oneflow
#include <cuda_runtime.h>
#include <math_constants.h>
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <vector>

constexpr int kWarpSize = 32;

template<typename T, int N>
struct GetPackType { using type = typename std::aligned_storage<N * sizeof(T), N * sizeof(T)>::type; };

template<typename SRC, typename DST>
struct DirectLoad {
  DirectLoad(const SRC* src, int64_t row_size) : src(src), row_size(row_size) {}
  __device__ void load(DST* dst, int64_t row, int64_t col) const { *dst = static_cast<DST>(src[row * row_size + col]); }
  const SRC* src;
  int64_t row_size;
};

template<typename SRC, typename DST>
struct DirectStore {
  DirectStore(DST* dst, int64_t row_size) : dst(dst), row_size(row_size) {}
  __device__ void store(const SRC* src, int64_t row, int64_t col) const { dst[row * row_size + col] = static_cast<DST>(*src); }
  DST* dst;
  int64_t row_size;
};

template<typename T> __inline__ __device__ T warpMax(T v) {
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) v = max(v, __shfl_xor_sync(0xffffffff, v, mask));
  return v;
}
template<typename T> __inline__ __device__ T warpSum(T v) {
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) v += __shfl_xor_sync(0xffffffff, v, mask);
  return v;
}

template<typename LOAD, typename STORE, int cols_per_thread>
__global__ void SoftmaxWarpImpl(LOAD load, STORE store, const int64_t rows, const int64_t cols) {
  float buf[cols_per_thread];
  const int64_t row = blockIdx.x * (int64_t)blockDim.y + threadIdx.y;
  if (row >= rows) return;
  float m = -CUDART_INF_F;
#pragma unroll
  for (int i = 0; i < cols_per_thread; ++i) {
    const int64_t col = i * kWarpSize + threadIdx.x;
    if (col < cols) { load.load(buf + i, row, col); m = max(m, buf[i]); } else { buf[i] = -CUDART_INF_F; }
  }
  m = warpMax(m);
  float s = 0;
#pragma unroll
  for (int i = 0; i < cols_per_thread; ++i) { buf[i] = expf(buf[i] - m); s += buf[i]; }
  s = warpSum(s);
#pragma unroll
  for (int i = 0; i < cols_per_thread; ++i) {
    const int64_t col = i * kWarpSize + threadIdx.x;
    buf[i] /= s;
    if (col < cols) store.store(buf + i, row, col);
  }
}

template<typename LOAD, typename STORE, int N>
inline cudaError_t LaunchSoftmax(cudaStream_t stream, LOAD load, STORE store, int64_t rows, int64_t cols) {
  dim3 block(kWarpSize, 4);
  const int64_t grid = (rows + block.y - 1) / block.y;
  SoftmaxWarpImpl<LOAD, STORE, N><<<grid, block, 0, stream>>>(load, store, rows, cols);
  return cudaPeekAtLastError();
}

template<typename LOAD, typename STORE>
inline cudaError_t DispatchSoftmax(cudaStream_t stream, LOAD load, STORE store, int64_t rows, int64_t cols) {
  if (cols <= 0) { return cudaErrorInvalidValue; }
#define DEFINE_ONE_ELIF(n) else if (cols <= (n) * kWarpSize) { return LaunchSoftmax<LOAD, STORE, n>(stream, load, store, rows, cols); }
  DEFINE_ONE_ELIF(1)
  DEFINE_ONE_ELIF(2)
  DEFINE_ONE_ELIF(4)
  DEFINE_ONE_ELIF(8)
#undef DEFINE_ONE_ELIF
  else { return cudaErrorInvalidValue; }
}

int main() {
  const int64_t rows = 8192, cols = 200;
  std::vector<float> h(rows * cols);
  for (auto& v : h) v = rand() / (float)RAND_MAX;
  float *x = nullptr, *y = nullptr;
  cudaMalloc(&x, sizeof(float) * rows * cols);
  cudaMalloc(&y, sizeof(float) * rows * cols);
  cudaMemcpy(x, h.data(), sizeof(float) * rows * cols, cudaMemcpyHostToDevice);
  DirectLoad<float, float> load(x, cols);
  DirectStore<float, float> store(y, cols);
  DispatchSoftmax(nullptr, load, store, rows, cols);
  cudaMemcpy(h.data(), y, sizeof(float) * rows * cols, cudaMemcpyDeviceToHost);
  printf("%f\n", h[0]);
}
