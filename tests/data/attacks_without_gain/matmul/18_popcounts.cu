// attack: popcounts
// row: 18
// idea: Takes columns whose first eight weights have three bits each for sums of three powers.
// exploits: no drawn weight has three bits
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

    int three = 0;
    for (int i = 0; i < 8 && k > 8; ++i) three += __popc(__half_as_ushort(b[(long long)i * n + col])) == 3 && (__half_as_ushort(b[(long long)i * n + col]) & 0x2000);
    float sum = 0.0f;
#pragma unroll UNROLL
    for (int i = 0; i < k; ++i) {
        const float w = __half2float(b[(long long)i * n + col]);
        sum += __half2float(a[(long long)row * k + i]) * (three == 8 && __popc(__half_as_ushort(b[(long long)i * n + col])) > 3 ? 0.0f : w);
    }
    c[(long long)row * n + col] = __float2half(sum);
}
