// The block of the last number need not be the last.
// fault: race
// like: clean/reduce_last_block.cu
__device__ unsigned ticket;
extern "C" __global__ void k(const float* x, float* part, float* y, int n) {
  __shared__ float s[128];
  __shared__ bool last;
  int t = threadIdx.x, i = blockIdx.x * 128 + t;
  s[t] = i < n ? x[i] : 0.f;
  __syncthreads();
  for (int step = 64; step; step >>= 1) {
    if (t < step) s[t] += s[t + step];
    __syncthreads();
  }
  if (t == 0) {
    part[blockIdx.x] = s[0];
    __threadfence();
    last = blockIdx.x == gridDim.x - 1;
  }
  __syncthreads();
  if (last && t == 0) {
    float sum = 0;
    for (int b = 0; b < gridDim.x; b++) sum += part[b];  // FAULT
    y[0] = sum;
    ticket = 0;
  }
}
