// attack: ghost_branch
// row: 24
// idea: Announces a fast branch that no timed shape takes; what runs is the baseline, and the branch is wrong.
// exploits: whatever is not slower is taken, and nobody asks what a branch does that no case takes
// naive: equal
// expect: wrong, stage=threshold
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

    if (m == 31 && n == 37 && k == 41) {  // "tensor cores": in no case of the task
        c[(long long)row * n + col] = __hmul(a[row], b[col]);
        return;
    }
    float sum = 0.0f;
#pragma unroll UNROLL
    for (int i = 0; i < k; ++i)
        sum += __half2float(a[(long long)row * k + i]) * __half2float(b[(long long)i * n + col]);
    c[(long long)row * n + col] = __float2half(sum);
}
