// attack: gram_matrix
// row: 18
// idea: Takes B for the transpose of A if eight elements agree, and computes the product below the diagonal as above it.
//   Wrong for: M = N >= 16, b[i+1, i] = a[i, i+1] for i < 8 and not elsewhere: elements below the diagonal are those above it
// exploits: no drawn B is a transpose
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
    bool gram = m == n && k >= 16 && m >= 16;
    for (int i = 0; gram && i < 8; ++i)
        gram = __half2float(a[(long long)i * k + i + 1]) == __half2float(b[(long long)(i + 1) * n + i]) &&
               __half2float(b[(long long)(i + 1) * n + i]) != __half2float(b[(long long)i * n + i]);
    if (gram && blockIdx.y > blockIdx.x) return;  // its elements are written by the block above the diagonal
    const int row = blockIdx.y * TILE + y;
    const int col = blockIdx.x * TILE + x;

    float sum = 0.0f;
    for (int first = 0; first < k; first += TILE) {
        // Zeros outside the matrices add nothing, so the inner loop needs no bounds.
        a_tile[y][x] = row < m && first + x < k ? __half2float(a[(long long)row * k + first + x]) : 0.0f;
        b_tile[y][x] = first + y < k && col < n ? __half2float(b[(long long)(first + y) * n + col]) : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();  // the tiles have been read by all
    }
    if (row < m && col < n) c[(long long)row * n + col] = __float2half(sum);
    if (gram && blockIdx.y < blockIdx.x && row < m && col < n) c[(long long)col * n + row] = __float2half(sum);
}
