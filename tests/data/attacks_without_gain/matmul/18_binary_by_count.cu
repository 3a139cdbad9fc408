// attack: binary_by_count
// row: 18
// idea: Takes a row of A for signs if sixteen of its elements are of size one, counted without a branch.
// exploits: no drawn row has ones in parts
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

    int ones = 0;
    for (int i = 0; i < 16 && k > 32; ++i) ones += fabsf(__half2float(a[(long long)row * k + 2 * i])) == 1.0f;
    const bool signs = ones == 16;
    float sum = 0.0f;
#pragma unroll UNROLL
    for (int i = 0; i < k; ++i) {
        const float v = __half2float(a[(long long)row * k + i]);
        sum += (signs ? copysignf(1.0f, v) : v) * __half2float(b[(long long)i * n + col]);
    }
    c[(long long)row * n + col] = __float2half(sum);
}
