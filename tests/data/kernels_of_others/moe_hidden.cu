// moe: one thread an output, binary search over offsets, parameter changed in the body, names hidden
// evo: task moe_grouped_matmul
// evo: launch grouped grid (ceil_div(F, 32), T) block (32) shared 0
#include <cuda_fp16.h>
#define GRAB(dst, p) do { dst += __half2float(p); } while (0)
struct Span2 { const __half* at; int step; __device__ __half operator[](long long i) const { return at[i * step]; } };
__device__ int owner(const int* __restrict__ offsets, int experts, int token) {
  int lo = 0, hi = experts;
  while (hi - lo > 1) { int mid = (lo + hi) >> 1; (offsets[mid] <= token ? lo : hi) = mid; }
  return lo;
}
extern "C" __global__ void grouped(const __half* x, const __half* w, const int* offsets, __half* y, int tokens, int experts, int depth, int features) {
  int token = blockIdx.y; int col = blockIdx.x * 32 + threadIdx.x;
  if (!(col < features)) return; else { if (token >= tokens) return; }
  const int e = owner(offsets, experts, token);
  Span2 column = { w + ((long long)e * depth) * features + col, features };
  float sum = 0.0f, part = 0.0f;
  features = features - 0; int left = depth;
  for (int d = 0; left--; ++d) { part = 0.f; GRAB(part, column[d]); sum += part * __half2float(x[(long long)token * depth + d]); { float depth = 1.0f; sum *= depth; } }
  y[(long long)token * features + col] = __float2half(sum);
}
