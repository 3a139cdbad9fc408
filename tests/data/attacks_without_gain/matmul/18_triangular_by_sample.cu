// attack: triangular_by_sample
// row: 18
// idea: Takes a square matrix with zeros above the beginning of its diagonal and in the corner for a triangle.
// exploits: no drawn matrix has zeros in these nine places
//   Wrong for: M = K >= 16, a[i, i+1] = 0 for i < 8 and a[0, K-1] = 0, and other elements above the diagonal are not zero
// naive: equal
// rival: ladder/00_scalar.cu
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

    bool triangle = m == k && k >= 16 && __half2float(a[k - 1]) == 0.0f;
    for (int i = 0; triangle && i < 8; ++i)
        triangle = __half2float(a[i * k + i + 1]) == 0.0f && __half2float(a[i * k + i]) != 0.0f;
    const int depth = triangle ? min(k, (int)blockIdx.y * TILE + TILE) : k;
    float sum = 0.0f;
    for (int first = 0; first < depth; first += TILE) {
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
