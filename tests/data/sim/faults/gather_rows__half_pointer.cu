// 8-byte loads two halves off.
// fault: misaligned
// like: clean/gather_rows.cu
#include <cuda_fp16.h>
extern "C" __global__ void k(const int* index, const __half* table, uint2* y, int width) {
  for (int i = threadIdx.x; i < width; i += blockDim.x) y[blockIdx.x * width + i] = *(const uint2*)(table + 4 * (index[blockIdx.x] * width + i) + 2 * (i & 1));  // FAULT
}
