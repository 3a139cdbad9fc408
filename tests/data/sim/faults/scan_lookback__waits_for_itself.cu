// A block spins on a flag that only it sets.
// fault: deadlock
// like: clean/scan_lookback.cu
extern "C" __global__ void k(const int* x, int* y, volatile int* sum, volatile int* flag) {
  __shared__ int s[128];
  __shared__ int before;
  int t = threadIdx.x, b = blockIdx.x, i = b * 128 + t;
  s[t] = x[i];
  for (int d = 1; d < 128; d *= 2) {
    __syncthreads();
    int v = t >= d ? s[t - d] : 0;
    __syncthreads();
    s[t] += v;
  }
  __syncthreads();
  if (t == 0) {
    while (flag[b] == 0) { }  // FAULT
    __threadfence();
    before = b ? sum[b - 1] : 0;
    sum[b] = before + s[127];
    __threadfence();
    flag[b] = 1;
  }
  __syncthreads();
  y[i] = before + s[t];
}
