// 4-bit weights, two to a byte, a scale and a zero point for each group of 64 columns.
#include <cuda_fp16.h>
#include <cstdint>

#define GROUP 64
#define DIVUP(a, b) (((a) + (b) - 1) / (b))

namespace quant {

static __device__ __forceinline__ void unpack(uint8_t byte, int& low, int& high) {
  low = byte & 0xF;
  high = byte >> 4;
}

__global__ void dequantize_q4(const uint8_t* __restrict__ packed, const half* __restrict__ scales,
                              const uint8_t* __restrict__ zeros, half* __restrict__ out, const int rows,
                              const int cols) {
  const int pair = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y;
  if (pair >= cols / 2) return;
  int low, high;
  unpack(packed[row * (cols / 2) + pair], low, high);
  const int group = row * (cols / GROUP) + (2 * pair) / GROUP;
  const float scale = __half2float(scales[group]);
  const int zero = zeros[group];
  out[row * cols + 2 * pair] = __float2half(scale * (low - zero));
  out[row * cols + 2 * pair + 1] = __float2half(scale * (high - zero));
}

}  // namespace quant

void dequantize_row_q4_cuda(const uint8_t* packed, const half* scales, const uint8_t* zeros, half* out, int rows,
                            int cols, cudaStream_t stream) {
  const dim3 block(128, 1, 1);
  const dim3 grid(DIVUP(cols / 2, block.x), rows, 1);
  quant::dequantize_q4<<<grid, block, 0, stream>>>(packed, scales, zeros, out, rows, cols);
}
