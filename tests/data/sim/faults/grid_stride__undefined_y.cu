// The output is read before it is written.
// fault: uninitialised
// like: clean/grid_stride.cu
// undefined: 2
extern "C" __global__ void k(float a, const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];  // FAULT
}
