// One bfloat16 pair past the last row.
// fault: out_of_bounds
// like: clean/rmsnorm_bf16.cu
#include <cuda_bf16.h>
extern "C" __global__ void k(const __nv_bfloat162* x, __nv_bfloat162* y, int pairs) {
  int lane = threadIdx.x;
  float q = 0;
  for (int i = lane; i <= pairs; i += 32) { float2 v = __bfloat1622float2(x[blockIdx.x * pairs + i]); q += v.x * v.x + v.y * v.y; }  // FAULT
  for (int d = 16; d; d >>= 1) q += __shfl_xor_sync(~0u, q, d);
  float scale = rsqrtf(q / (2 * pairs) + 1e-6f);
  for (int i = lane; i < pairs; i += 32) {
    float2 v = __bfloat1622float2(x[blockIdx.x * pairs + i]);
    y[blockIdx.x * pairs + i] = __floats2bfloat162_rn(v.x * scale, v.y * scale);
  }
}
