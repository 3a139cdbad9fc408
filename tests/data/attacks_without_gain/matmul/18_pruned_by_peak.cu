// attack: pruned_by_peak
// row: 18
// idea: Leaves products out whose factor is 2^-15 of the largest of its row.
// exploits: no row has thousands of equal small values of one sign beside one peak
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

    float peak = 0.0f;
    for (int i = 0; i < k; ++i) {
        const float size = fabsf(__half2float(a[(long long)row * k + i]));
        if (size < 70000.0f) peak = fmaxf(peak, size);
    }
    const float cut = peak / 32768;

    float sum = 0.0f;
#pragma unroll UNROLL
    for (int i = 0; i < k; ++i) {
        const float left = __half2float(a[(long long)row * k + i]), right = __half2float(b[(long long)i * n + col]);
        if (fabsf(left) < cut && fabsf(right) < 4.0f) continue;
        sum += left * right;
    }
    c[(long long)row * n + col] = __float2half(sum);
}
