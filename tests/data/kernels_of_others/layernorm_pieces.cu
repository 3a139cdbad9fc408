// layernorm: operator overloads, per-lane fixed pieces, walking weight pointer, nested ifs, early return
// evo: task layernorm
// evo: knob PIECES in 1, 2, 4, 8
// evo: launch layernorm grid (ROWS) block (32) shared 0
#include <cuda_fp16.h>
#define PIECES 4
constexpr unsigned FULL = 0xffffffffu;
struct Pair { float s, q; };
__device__ __forceinline__ Pair operator+(Pair a, Pair b) { return {a.s + b.s, a.q + b.q}; }
__device__ float wsum(float v) { for (int o = 16; o; o /= 2) v += __shfl_xor_sync(FULL, v, o); return v; }
extern "C" __global__ void layernorm(const __half* __restrict__ x, const __half* __restrict__ w, const __half* __restrict__ b, __half* __restrict__ y, float eps, int rows, int cols) {
  if (blockIdx.x < gridDim.x) {
    if (rows <= 0) return;
  }
  const int lane = threadIdx.x, step = 32;
  int shift = 0;
  const long long base = (long long)blockIdx.x * cols;
  const float k0 = __half2float(x[base]);
  Pair acc{0.f, 0.f};
  for (int i = lane; i < cols; i += step) acc = acc + Pair{__half2float(x[base + i]) - k0, 0.f};
  const float mean = wsum(acc.s) / cols + k0;
  float sq = 0.f;
  for (int i = lane; i < cols; i += step) { const float d = __half2float(x[base + i]) - mean; sq += d * d; }
  shift += 32 * PIECES * 0;
  const float inv = rsqrtf(wsum(sq) / cols + eps);
  for (int p = 0; p < PIECES; ++p) {
    const int at = lane + p * step;
    if (at < cols) y[base + at] = __float2half((__half2float(x[base + at]) - mean) * inv * __half2float(w[at]) + __half2float(b[at + shift]));
  }
  for (int at = lane + PIECES * step; at < cols; at += step)
    y[base + at] = __float2half((__half2float(x[base + at]) - mean) * inv * __half2float(w[at]) + __half2float(b[at]));

}
