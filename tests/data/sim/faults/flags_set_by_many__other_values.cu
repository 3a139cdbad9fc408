// They set it to values of their own.
// fault: race
// like: clean/flags_set_by_many.cu
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (x[i] > 50) f[0] = 1 + blockIdx.x;  // FAULT
  y[i] = x[i];
}
