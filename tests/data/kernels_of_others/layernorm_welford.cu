// LayerNorm: Welford per thread, merged by a struct with operators; one warp per row; C++17 structured bindings
// evo: task   layernorm
// evo: knob   WARPS in 1, 2, 4, 8
// evo: launch layernorm grid (ceil_div(ROWS, WARPS)) block (32, WARPS) shared 0
#include <cuda_fp16.h>
#define WARPS 4
#define FULL_MASK 0xffffffffu

struct Stats {
  float mean, m2, n;
  __device__ void push(float v) {
    n += 1.f;
    const float d = v - mean;
    mean += d / n;
    m2 += d * (v - mean);
  }
  __device__ Stats merge(const Stats& o) const {
    const float t = n + o.n;
    if (t == 0.f) return *this;
    const float d = o.mean - mean;
    return Stats{mean + d * o.n / t, m2 + o.m2 + d * d * n * o.n / t, t};
  }
};

__device__ auto shuffle(const Stats& s, int d) {
  return Stats{__shfl_xor_sync(FULL_MASK, s.mean, d), __shfl_xor_sync(FULL_MASK, s.m2, d), __shfl_xor_sync(FULL_MASK, s.n, d)};
}

extern "C" __global__ __launch_bounds__(32 * WARPS) void layernorm(const __half* x, const __half* w, const __half* b, __half* y, float eps, int rows, int cols) {
  const int row = blockIdx.x * WARPS + threadIdx.y;
  if (row >= rows) return;
  const size_t base = size_t(row) * cols;
  Stats s{0.f, 0.f, 0.f};
  for (int i = threadIdx.x; i < cols; i += 32) s.push(__half2float(x[base + i]));
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) s = s.merge(shuffle(s, d));
  const auto [mean, m2, count] = s;
  const float inv = rsqrtf(m2 / cols + eps);
  (void)count;
  for (int i = threadIdx.x; i < cols; i += 32) {
    const float v = (__half2float(x[base + i]) - mean) * inv;
    y[base + i] = __float2half(v * __half2float(w[i]) + __half2float(b[i]));
  }
}
