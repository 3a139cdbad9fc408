// 16-bit elements past the input.
// fault: out_of_bounds
// like: clean/transpose_half.cu
#include <cuda_fp16.h>
extern "C" __global__ void k(const __half* x, __half* y, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i % cols * rows + i / cols] = x[i];  // FAULT
}
