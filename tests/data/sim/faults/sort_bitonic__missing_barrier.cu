// No barrier between the steps.
// fault: race or uninitialised
// like: clean/sort_bitonic.cu
extern "C" __global__ void k(const int* x, int* y) {
  __shared__ int s[256];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 256 + t];
  for (int size = 2; size <= 256; size *= 2)
    for (int d = size / 2; d; d >>= 1) {
      int o = t ^ d;
      if (o > t) {
        int a = s[t], b = s[o];  // FAULT
        if ((a > b) == ((t & size) == 0)) { s[t] = b; s[o] = a; }  // FAULT
      }
    }
  __syncthreads();
  y[blockIdx.x * 256 + t] = s[t];
}
