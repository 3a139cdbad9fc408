// An assertion of the author's.
// fault: trap
// like: clean/grid_stride.cu
extern "C" __global__ void k(float a, const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) { if (i == 777) __trap(); y[i] = a * x[i] + y[i]; }  // FAULT
}
