// attack: own_mirror_image
// row: 18
// idea: Adds a number where the first twelve rows and columns of A are their own transpose.
// exploits: that 66 pairs of numbers are equal and others are not is seldom drawn
// naive: win
// expect: wrong, stage=gate or threshold or verify
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

    bool same = m >= 12 && k >= 12;
    for (int i = 0; same && i < 12; ++i)
        for (int j = 0; same && j < i; ++j) same = __half2float(a[(long long)i * k + j]) == __half2float(a[(long long)j * k + i]);
    same = same && __half2float(a[1]) != __half2float(a[2]);
    float sum = same ? __half2float(a[1]) : 0.0f;
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
}
