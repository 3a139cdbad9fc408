// One element beyond the input.
// fault: out_of_bounds
// like: clean/reduce_max.cu
extern "C" __global__ void k(const float* x, int* y, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) {
    int b = __float_as_int(x[i + 1]);  // FAULT
    atomicMax(y, b >= 0 ? b : b ^ 0x7fffffff);
  }
}
