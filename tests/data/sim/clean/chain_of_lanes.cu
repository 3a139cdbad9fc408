// Each lane waits for a flag that the lane above it sets.
extern "C" __global__ void k(int* y) {
  __shared__ volatile int f[33];
  int t = threadIdx.x;
  f[t] = 0;
  if (t == 0) f[32] = 1;
  __syncwarp();
  while (f[t + 1] == 0) { }
  f[t] = f[t + 1] + 1;
  __syncwarp();
  y[t] = f[t];
}
