// add_layernorm: weights read by lambdas (one twice, one nested), fixed pieces of a row, block of four warps
// evo: task add_layernorm
// evo: knob KEEP in 1, 2, 4
// evo: launch add_layernorm grid (ROWS) block (128) shared 0
#include <cuda_fp16.h>
#define KEEP 2
#define THREADS 128
__device__ float all(float v, float (*tmp)[4], int which) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
  if ((threadIdx.x & 31) == 0) tmp[which][threadIdx.x >> 5] = v;
  __syncthreads();
  return tmp[which][0] + tmp[which][1] + tmp[which][2] + tmp[which][3];
}
extern "C" __global__ void __launch_bounds__(THREADS) add_layernorm(const __half* __restrict__ x, const __half* __restrict__ r, const __half* __restrict__ w, const __half* __restrict__ b, __half* __restrict__ s, __half* __restrict__ y, float eps, int rows, int cols) {
  __shared__ float tmp[2][4];
  const long long base = (long long)blockIdx.x * cols;
  const auto value = [&](int i) { return __half2float(x[base + i]) + __half2float(r[base + i]); };
  const float ref = value(0);
  float sum = 0.f;
  for (int i = threadIdx.x; i < cols; i += THREADS) { sum += value(i) - ref; s[base + i] = __float2half(value(i)); }
  const float mean = all(sum, tmp, 0) / cols + ref;
  float sq = 0.f;
  for (int i = threadIdx.x; i < cols; i += THREADS) { const float d = value(i) - mean; sq += d * d; }
  const float inv = rsqrtf(all(sq, tmp, 1) / cols + eps);
  const auto scaled = [=](float v, int c) { return (v - mean) * inv * __half2float(w[c]); };
  const auto finish = [&](int c) { y[base + c] = __float2half(scaled(value(c), c) + __half2float(b[c])); };
#pragma unroll
  for (int p = 0; p < KEEP; p++) {
    const int c = threadIdx.x + p * THREADS;
    if (c < cols) {
      const float v = value(c);
      y[base + c] = __float2half(scaled(v, c) + __half2float(b[c]));
    }
  }
  for (int c = threadIdx.x + KEEP * THREADS; c < cols; c += THREADS) finish(c);
}
