// Two lanes stay away from a butterfly.
// fault: warp_sync
// like: clean/softmax_shuffle.cu
extern "C" __global__ void k(const float* x, float* y, int rows) {
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float v[4], m = -1e30f, s = 0;
  for (int i = 0; i < 4; i++) m = fmaxf(m, v[i] = x[row * 128 + lane + 32 * i]);
  for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
  for (int i = 0; i < 4; i++) s += v[i] = expf(v[i] - m);
  if (lane < 30) for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);  // FAULT
  for (int i = 0; i < 4; i++) y[row * 128 + lane + 32 * i] = v[i] / s;
}
