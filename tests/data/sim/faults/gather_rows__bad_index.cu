// Rows beyond the table.
// fault: out_of_bounds
// like: clean/gather_rows.cu
#include <cuda_fp16.h>
extern "C" __global__ void k(const int* index, const uint2* table, uint2* y, int width) {
  for (int i = threadIdx.x; i < width; i += blockDim.x) y[blockIdx.x * width + i] = table[(index[blockIdx.x] + 11) * width + i];  // FAULT
}
