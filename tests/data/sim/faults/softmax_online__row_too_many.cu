// One row more than there is.
// fault: out_of_bounds
// like: clean/softmax_online.cu
extern "C" __global__ void k(const float* x, float* y, int rows, int n) {
  int row = blockIdx.x * 8 + threadIdx.x / 16, lane = threadIdx.x % 16;
  if (row > rows) return;
  unsigned half = 0xffffu << (threadIdx.x & 16);
  float m = -1e30f, s = 0;
  for (int i = lane; i < n; i += 16) {
    float v = x[row * n + i],  // FAULT
      big = fmaxf(m, v);
    s = s * expf(m - big) + expf(v - big);
    m = big;
  }
  for (int d = 8; d; d >>= 1) {
    float m2 = __shfl_xor_sync(half, m, d, 16), s2 = __shfl_xor_sync(half, s, d, 16), big = fmaxf(m, m2);
    s = s * expf(m - big) + s2 * expf(m2 - big);
    m = big;
  }
  for (int i = lane; i < n; i += 16) y[row * n + i] = expf(x[row * n + i] - m) / s;
}
