// Odd and even lanes meet at different __syncwarp calls, which one mask joins; lanes beyond n have left.
extern "C" __global__ void k(const int* x, int* y, int n) {
  __shared__ int s[32];
  int t = threadIdx.x, sum = 0;
  if (t >= n) return;
  for (int r = 0; r < 4; r++) {
    if (t & 1) {
      s[t] = x[t] + r;
      __syncwarp();
      sum += s[t - 1];
      __syncwarp();
    } else {
      s[t] = x[t] * r;
      __syncwarp();
      sum += s[t + 1] * 3;
      __syncwarp();
    }
  }
  y[t] = sum;
}
