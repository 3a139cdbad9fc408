// Bitonic sort of 32 values in registers.
extern "C" __global__ void k(const int* x, int* y) {
  int t = threadIdx.x, v = x[blockIdx.x * 32 + t];
  for (int size = 2; size <= 32; size *= 2)
    for (int d = size / 2; d; d >>= 1) {
      int o = __shfl_xor_sync(~0u, v, d);
      bool low = ((t & d) == 0) == ((t & size) == 0);
      v = low ? min(v, o) : max(v, o);
    }
  y[blockIdx.x * 32 + t] = v;
}
