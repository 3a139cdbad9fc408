// Even lanes leave out one meeting.
// fault: warp_sync
// like: clean/warp_apart.cu
extern "C" __global__ void k(const int* x, int* y, int n) {
  __shared__ int s[32];
  int t = threadIdx.x, sum = 0;
  if (t >= n) return;
  for (int r = 0; r < 4; r++) {
    if (t & 1) {
      s[t] = x[t] + r;
      __syncwarp();  // FAULT
      sum += s[t - 1];
      __syncwarp();  // FAULT
    } else {
      s[t] = x[t] * r;
      __syncwarp();  // FAULT
      sum += s[t + 1] * 3;
    }
  }
  y[t] = sum;
}
