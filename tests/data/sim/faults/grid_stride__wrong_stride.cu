// Blocks walk over each other's elements.
// fault: race
// like: clean/grid_stride.cu
extern "C" __global__ void k(float a, const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x) y[i] = a * x[i] + y[i];  // FAULT
}
