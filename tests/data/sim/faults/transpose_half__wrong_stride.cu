// Columns overlap by one 16-bit element.
// fault: race
// like: clean/transpose_half.cu
#include <cuda_fp16.h>
extern "C" __global__ void k(const __half* x, __half* y, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * cols) y[i % cols * (rows - 1) + i / cols] = x[i];  // FAULT
}
