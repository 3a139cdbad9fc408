// Two of the four sums of squares are never written.
// fault: uninitialised
// like: clean/layernorm.cu
#include <cuda_fp16.h>
extern "C" __global__ void k(const __half* x, const float* gain, const float* bias, __half* y, int n) {
  __shared__ float part[8];
  int t = threadIdx.x;
  const __half* row = x + blockIdx.x * n;
  float s = 0, q = 0;
  for (int i = t; i < n; i += 128) { float v = __half2float(row[i]); s += v; q += v * v; }
  for (int d = 16; d; d >>= 1) { s += __shfl_xor_sync(~0u, s, d); q += __shfl_xor_sync(~0u, q, d); }
  if (t % 32 == 0) { part[t / 32] = s; if (t < 64) part[4 + t / 32] = q; }
  __syncthreads();
  s = part[0] + part[1] + part[2] + part[3];
  q = part[4] + part[5] + part[6] + part[7];  // FAULT
  float mean = s / n, scale = rsqrtf(q / n - mean * mean + 1e-5f);
  for (int i = t; i < n; i += 128) y[blockIdx.x * n + i] = __float2half((__half2float(row[i]) - mean) * scale * gain[i] + bias[i]);
}
