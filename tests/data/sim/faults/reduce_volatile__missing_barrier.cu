// The last warp reads what another warp still adds.
// fault: race
// like: clean/reduce_volatile.cu
extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float s[128];
  int t = threadIdx.x, i = blockIdx.x * 128 + t;
  s[t] = i < n ? x[i] : 0.f;
  __syncthreads();
  if (t < 64) s[t] += s[t + 64];  // FAULT
  if (t < 32) {
    volatile float* v = s;
    v[t] += v[t + 32];  // FAULT
    __syncwarp();
    v[t] += v[t + 16];
    __syncwarp();
    v[t] += v[t + 8];
  }
  if (t == 0) y[blockIdx.x] = s[0];
}
