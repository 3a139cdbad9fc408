// One sum more than the tile holds.
// fault: out_of_bounds
// like: clean/reduce_shuffle.cu
extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float s[4];
  int t = threadIdx.x, i = blockIdx.x * 128 + t;
  float v = i < n ? x[i] : 0.f;
  for (int d = 16; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
  if (t % 32 == 0) s[t / 32] = v;
  __syncthreads();
  if (t < 32) {
    v = t < 5 ? s[t] : 0.f;  // FAULT
    for (int d = 2; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
    if (t == 0) y[blockIdx.x] = v;
  }
}
