// Sum per block whose last warp meets between the steps on volatile shared memory.
extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float s[128];
  int t = threadIdx.x, i = blockIdx.x * 128 + t;
  s[t] = i < n ? x[i] : 0.f;
  __syncthreads();
  if (t < 64) s[t] += s[t + 64];
  __syncthreads();
  if (t < 32) {
    volatile float* v = s;
    float sum = v[t] + v[t + 32];
    for (int step = 16; step > 0; step /= 2) {
      __syncwarp();
      v[t] = sum;
      __syncwarp();
      if (t < step) sum += v[t + step];
    }
    v[t] = sum;
  }
  if (t == 0) y[blockIdx.x] = s[0];
}
