// Results are read before the last exchange.
// fault: race
// like: clean/sort_bitonic.cu
extern "C" __global__ void k(const int* x, int* y) {
  __shared__ int s[256];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 256 + t];
  for (int size = 2; size <= 256; size *= 2)
    for (int d = size / 2; d; d >>= 1) {
      __syncthreads();
      int o = t ^ d;
      if (o > t) {
        int a = s[t], b = s[o];
        if ((a > b) == ((t & size) == 0)) { s[t] = b; s[o] = a; }  // FAULT
      }
    }
  y[blockIdx.x * 256 + t] = s[t];  // FAULT
}
