// grouped product: binary search for the expert, 1 thread per element, short-circuit loop conditions, ternaries
// evo: task   moe_grouped_matmul
// evo: knob   COLS_ in 16, 32, 64
// evo: knob   ROWS_ in 1, 2, 4, 8
// evo: launch moe_grouped_matmul grid (ceil_div(F, COLS_), ceil_div(T, ROWS_)) block (COLS_, ROWS_) shared 0
#include <cuda_fp16.h>
#define COLS_ 32
#define ROWS_ 4
typedef __half const* __restrict__ cptr;

__device__ __noinline__ int expert_of(const int* __restrict__ offsets, int experts, int token) {
  int lo = 0, hi = experts;
  for (; hi - lo > 1;) {
    const int mid = (lo + hi) >> 1;
    (offsets[mid] <= token ? lo : hi) = mid;
  }
  while (lo + 1 < experts && offsets[lo + 1] <= token) ++lo;
  return lo;
}

extern "C" __global__ void moe_grouped_matmul(const __half* x, const __half* w, const int* offsets, __half* y, int T, int E, int D, int F) {
  const int f = blockIdx.x * COLS_ + threadIdx.x, t = blockIdx.y * ROWS_ + threadIdx.y;
  if (t >= T or f >= F) return;
  const int e = expert_of(offsets, E, t);
  cptr xr = x + (size_t)t * D;
  cptr wc = w + (size_t)e * D * F + f;
  float lo = 0.f, hi = 0.f;  // two partial sums
  int d = 0;
  for (; d + 1 < D; d += 2) {
    lo = __fmaf_rn(__half2float(xr[d]), __half2float(wc[(size_t)d * F]), lo);
    hi = __fmaf_rn(__half2float(xr[d + 1]), __half2float(wc[(size_t)(d + 1) * F]), hi);
  }
  if (d < D) lo += __half2float(xr[d]) * __half2float(wc[(size_t)d * F]);
  y[(size_t)t * F + f] = __float2half(lo + hi);
}
