// The input is written.
// fault: read_only
// like: clean/reduce_shared.cu
extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float s[128];
  int t = threadIdx.x, i = blockIdx.x * 128 + t;
  if (i == 77) ((float*)x)[i] = 0;  // FAULT
  s[t] = i < n ? x[i] : 0.f;
  __syncthreads();
  for (int step = 64; step; step >>= 1) {
    if (t < step) s[t] += s[t + step];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = s[0];
}
