// Blocks add to one word without an atomic.
// fault: race
// like: clean/reduce_atomic.cu
extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  float v = i < n ? x[i] : 0.f;
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) y[0] += v;  // FAULT
}
