// Sums are read before the barrier.
// fault: race or uninitialised
// like: clean/scan_shuffle.cu
extern "C" __global__ void k(const int* x, int* y) {
  __shared__ int sums[8];
  int t = threadIdx.x, lane = t % 32, g = blockIdx.x * 256 + t, v = x[g];
  for (int d = 1; d < 32; d *= 2) {
    int up = __shfl_up_sync(~0u, v, d);
    if (lane >= d) v += up;
  }
  if (lane == 31) sums[t / 32] = v;  // FAULT
  for (int w = 0; w < t / 32; w++) v += sums[w];  // FAULT
  y[g] = v;
}
