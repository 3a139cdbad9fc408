// The last thread writes one past the tile.
// fault: out_of_bounds or race
// like: clean/scan_blelloch.cu
extern "C" __global__ void k(const int* x, int* y) {
  __shared__ int s[256];
  int t = threadIdx.x, g = blockIdx.x * 256;
  s[2 * t] = x[g + 2 * t];
  s[2 * t + 1] = 0;
  s[2 * t + 2] = x[g + 2 * t + 1];  // FAULT
  int step = 1;
  for (int d = 128; d; d >>= 1, step *= 2) {
    __syncthreads();
    if (t < d) s[step * (2 * t + 2) - 1] += s[step * (2 * t + 1) - 1];
  }
  if (t == 0) s[255] = 0;
  for (int d = 1; d < 256; d *= 2) {
    step >>= 1;
    __syncthreads();
    if (t < d) {
      int a = step * (2 * t + 1) - 1, b = step * (2 * t + 2) - 1, v = s[a];
      s[a] = s[b];
      s[b] += v;
    }
  }
  __syncthreads();
  y[g + 2 * t] = s[2 * t];
  y[g + 2 * t + 1] = s[2 * t + 1];
}
