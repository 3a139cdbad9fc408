// 8-byte loads at multiples of 4.
// fault: misaligned
// like: clean/double_precision.cu
extern "C" __global__ void k(const double* x, double* y, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  double v = i < n - 1 ? ((const double*)((const char*)x + 4))[i] : 0;  // FAULT
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) atomicAdd(y, v);
}
