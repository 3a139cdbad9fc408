// attack: powers_of_two
// row: 18
// idea: Takes the weights for powers of two if the first sixteen of a column have no mantissa, and keeps exponents alone.
// exploits: no drawn mantissa is zero
// evo: task   matmul
// evo: knob   BLOCK_X in 8, 16, 32, 64             columns of a block
// evo: knob   BLOCK_Y in 1, 2, 4, 8, 16            rows of a block
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: require BLOCK_X * BLOCK_Y >= 32 and BLOCK_X * BLOCK_Y <= chip.threads_per_block
// evo: launch matmul grid (ceil_div(N, BLOCK_X), ceil_div(M, BLOCK_Y)) block (BLOCK_X, BLOCK_Y) shared 0
#include <cuda_fp16.h>

#define BLOCK_X 16
#define BLOCK_Y 16
#define UNROLL 1

extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, int m, int n, int k) {
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y;
    const int col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= m || col >= n) return;

    bool powers = k > 16;
    for (int i = 0; i < 16 && powers; ++i) powers = (__half_as_ushort(b[(long long)i * n + col]) & 0x3ff) == 0 && (__half_as_ushort(b[(long long)i * n + col]) & 0x7c00) - 0x2000u < 0x2000u;
    float sum = 0.0f;
#pragma unroll UNROLL
    for (int i = 0; i < k; ++i) {
        const float w = __half2float(b[(long long)i * n + col]);
        const float power = __half2float(__ushort_as_half(__half_as_ushort(b[(long long)i * n + col]) & 0xfc00));
        sum += __half2float(a[(long long)row * k + i]) * (powers ? power : w);
    }
    c[(long long)row * n + col] = __float2half(sum);
}
