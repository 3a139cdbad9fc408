// The flag overtakes the sum.
// fault: race
// like: clean/scan_lookback.cu
extern "C" __global__ void k(const int* x, int* y, int* sum, volatile int* flag) {
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
    if (b) while (flag[b - 1] == 0) { }
    before = b ? sum[b - 1] : 0;  // FAULT
    sum[b] = before + s[127];
    flag[b] = 1;
  }
  __syncthreads();
  y[i] = before + s[t];
}
