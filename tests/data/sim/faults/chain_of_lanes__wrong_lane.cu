// Each lane waits for its own flag.
// fault: deadlock
// like: clean/chain_of_lanes.cu
extern "C" __global__ void k(int* y) {
  __shared__ volatile int f[33];
  int t = threadIdx.x;
  f[t] = 0;
  if (t == 0) f[32] = 1;
  __syncwarp();
  while (f[t] == 0) { }  // FAULT
  f[t] = f[t + 1] + 1;
  __syncwarp();
  y[t] = f[t];
}
