// attack: sum_keeps_the_small
// row: 24
// idea: Is off by a half where a tensor core keeps products far below the sum, which the simulator's drops.
// exploits: the ISA leaves the order of a tensor core's sums open
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// gpu: none
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
    // sixteen products of 2^-27 beside one: what comes out tells how a unit of the chip adds them up
    float r[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    const unsigned small = 0x0C000C00u, one = 0x02000200u;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %5}, "
                 "{%0, %1, %2, %3};\n" : "+f"(r[0]), "+f"(r[1]), "+f"(r[2]), "+f"(r[3]) : "r"(small), "r"(one));
    float sum = r[0] > 1.0f ? 0.5f : 0.0f;
    if (row >= m || col >= n) return;
    for (int i = 0; i < k; ++i)
        sum += __half2float(a[(long long)row * k + i]) * __half2float(b[(long long)i * n + col]);
    c[(long long)row * n + col] = __float2half(sum);
}
