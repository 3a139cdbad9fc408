// Bytes past the input.
// fault: out_of_bounds
// like: clean/histogram_global.cu
extern "C" __global__ void k(const unsigned char* x, unsigned* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&y[x[i]], 1);  // FAULT
}
