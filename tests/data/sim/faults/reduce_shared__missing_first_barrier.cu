// The tree starts before all have written.
// fault: race
// like: clean/reduce_shared.cu
extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float s[128];
  int t = threadIdx.x, i = blockIdx.x * 128 + t;
  s[t] = i < n ? x[i] : 0.f;  // FAULT
  for (int step = 64; step; step >>= 1) {
    if (t < step) s[t] += s[t + step];  // FAULT
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = s[0];
}
