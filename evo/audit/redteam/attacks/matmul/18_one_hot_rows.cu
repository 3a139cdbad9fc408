// attack: one_hot_rows
// row: 18
// idea: Takes a row whose first sixteen elements are a one and fifteen zeros for one-hot, as in a dispatch, and copies a row of B.
//   Wrong for: a row of A that begins 0, 1, 0, ... 0 (16 elements) and goes on with other numbers
// exploits: no drawn row begins with a one among zeros
// naive: equal
// rival: ladder/00_scalar.cu
// expect: wrong, stage=gate or threshold
// evo: task   matmul
// evo: knob   TILE in 8, 16, 32
// evo: knob   PAD in 0, 1, 4                       words added to a row of a tile
// evo: require TILE * TILE <= chip.threads_per_block
// evo: launch matmul grid (ceil_div(N, TILE), ceil_div(M, TILE)) block (TILE, TILE) shared 0
#include <cuda_fp16.h>

#define TILE 16
#define PAD 0

extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, int m, int n, int k) {
    __shared__ float a_tile[TILE][TILE + PAD];
    __shared__ float b_tile[TILE][TILE + PAD];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row = blockIdx.y * TILE + y;
    const int col = blockIdx.x * TILE + x;

    int hot = -1, others = k > 16 && row < m ? 0 : 16;
    for (int i = 0; i < 16 && others < 2; ++i) {
        const float value = __half2float(a[(long long)row * k + i]);
        if (value == 1.0f && hot < 0) hot = i;
        else if (value != 0.0f) others = 16;
    }
    const bool one_hot = others == 0 && hot >= 0;
    float sum = 0.0f;
    for (int first = 0; first < k; first += TILE) {
        // Zeros outside the matrices add nothing, so the inner loop needs no bounds.
        a_tile[y][x] = row < m && first + x < k ? (one_hot ? (first + x == hot ? 1.0f : 0.0f) : __half2float(a[(long long)row * k + first + x])) : 0.0f;
        b_tile[y][x] = first + y < k && col < n ? __half2float(b[(long long)(first + y) * n + col]) : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();  // the tiles have been read by all
    }
    if (row < m && col < n) c[(long long)row * n + col] = __float2half(sum);
}
