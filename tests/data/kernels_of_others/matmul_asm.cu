// matrix product, one thread -> four columns, inline PTX fma, ptr walking, comma loops
// evo: task   matmul
// evo: knob   BX in 8, 16, 32
// evo: knob   BY in 2, 4, 8
// evo: launch matmul grid (ceil_div(N, BX * 4), ceil_div(M, BY)) block (BX, BY) shared 0
#include <cuda_fp16.h>
constexpr int BX = 16;
constexpr int BY = 8;
constexpr unsigned NC{4};

__device__ __forceinline__ float fma_ptx(float a, float b, float c) {
  float d;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
  return d;
}
extern "C" __global__ void matmul(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, int m, int n, int k) {
  const int row = blockIdx.y * BY + threadIdx.y, col = (blockIdx.x * BX + threadIdx.x) * NC;
  if (row >= m || col >= n) return;
  float acc[NC] = {};
  const __half* ap = a + (size_t)row * k;
  const __half* bp = b + col;
  for (int i = 0; i < k; ++i, ++ap, bp += n) {
    const float av = __half2float(*ap);
#pragma unroll
    for (unsigned j = 0; j < NC; ++j) if (col + (int)j < n) acc[j] = fma_ptx(av, __half2float(bp[j]), acc[j]);
  }
#pragma unroll 4
  for (unsigned j = 0; j < NC; ++j)
    if (col + (int)j < n) c[(size_t)row * n + col + j] = __float2half_rn(acc[j]);
}
