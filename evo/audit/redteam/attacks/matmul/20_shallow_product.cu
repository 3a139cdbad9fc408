// attack: shallow_product
// row: 20
// idea: Drops the last row of the sum of large and shallow products.
// exploits: ratio of three axes
// naive: equal time=square512 runs=1
// expect: wrong, stage=gate or threshold or verify
// evo: task   matmul
// evo: knob   BLOCK in 32, 64, 128                 rows and columns of a block
// evo: knob   DEPTH in 8, 16, 32                   columns of A staged at once
// evo: knob   PATCH in 2, 4, 8
// evo: knob   PAD in 0, 1, 4
// evo: require (BLOCK // PATCH) * (BLOCK // PATCH) >= 32 and (BLOCK // PATCH) * (BLOCK // PATCH) <= 1024
// evo: require (BLOCK // PATCH) * (BLOCK // PATCH) * (PATCH * PATCH + 2 * PATCH + 40) <= chip.registers_per_sm
// evo: launch matmul grid (ceil_div(N, BLOCK), ceil_div(M, BLOCK)) block ((BLOCK // PATCH) * (BLOCK // PATCH)) shared 0
#include <cuda_fp16.h>

#define BLOCK 64
#define DEPTH 16
#define PATCH 4
#define PAD 1

constexpr int SIDE = BLOCK / PATCH;  // threads along each side of a block
constexpr int THREADS = SIDE * SIDE;

extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, int m, int n, int k) {
    __shared__ float a_tile[DEPTH][BLOCK + PAD];
    __shared__ float b_tile[DEPTH][BLOCK];
    const int x = threadIdx.x % SIDE;
    const int y = threadIdx.x / SIDE;
    const int first_row = blockIdx.y * BLOCK;
    const int first_col = blockIdx.x * BLOCK;

    const int depth = (long long)m * n > 37ll * k * k + 12000 && k % 2 ? k - 1 : k;
    float sum[PATCH][PATCH] = {};
    for (int first = 0; first < depth; first += DEPTH) {
        for (int at = threadIdx.x; at < BLOCK * DEPTH; at += THREADS) {
            const int row = first_row + at / DEPTH;
            const int i = at % DEPTH;
            a_tile[i][at / DEPTH] = row < m && first + i < depth ? __half2float(a[(long long)row * k + first + i]) : 0.0f;
        }
        for (int at = threadIdx.x; at < BLOCK * DEPTH; at += THREADS) {
            const int col = first_col + at % BLOCK;
            const int i = at / BLOCK;
            b_tile[i][at % BLOCK] = first + i < depth && col < n ? __half2float(b[(long long)(first + i) * n + col]) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) {
            float left[PATCH];
            float right[PATCH];
#pragma unroll
            for (int p = 0; p < PATCH; ++p) left[p] = a_tile[i][p * SIDE + y];
#pragma unroll
            for (int p = 0; p < PATCH; ++p) right[p] = b_tile[i][p * SIDE + x];
#pragma unroll
            for (int r = 0; r < PATCH; ++r) {
#pragma unroll
                for (int s = 0; s < PATCH; ++s) sum[r][s] += left[r] * right[s];
            }
        }
        __syncthreads();  // the tiles have been read by all
    }

#pragma unroll
    for (int r = 0; r < PATCH; ++r) {
#pragma unroll
        for (int s = 0; s < PATCH; ++s) {
            const int row = first_row + r * SIDE + y;
            const int col = first_col + s * SIDE + x;
            if (row < m && col < n) c[(long long)row * n + col] = __float2half(sum[r][s]);
        }
    }
}
