// Doubles past the input.
// fault: out_of_bounds
// like: clean/double_precision.cu
extern "C" __global__ void k(const double* x, double* y, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  double v = x[i] * x[i];  // FAULT
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) atomicAdd(y, v);
}
