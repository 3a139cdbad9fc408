// attack: three_residues
// row: 20
// idea: Leaves the last product out at lengths with one residue each.
// exploits: no checked size has all three residues
// naive: equal
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

    int depth = k;
    if (m % 31 == 7) {
        asm volatile("membar.cta;" ::: "memory");
        if (n % 37 == 5) {
            asm volatile("membar.cta;" ::: "memory");
            if (k % 29 == 3) depth -= 1;
        }
    }
    float sum = 0.0f;
    for (int first = 0; first < depth; first += TILE) {
        // Zeros outside the matrices add nothing, so the inner loop needs no bounds.
        a_tile[y][x] = row < m && first + x < depth ? __half2float(a[(long long)row * k + first + x]) : 0.0f;
        b_tile[y][x] = first + y < depth && col < n ? __half2float(b[(long long)(first + y) * n + col]) : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();  // the tiles have been read by all
    }
    if (row < m && col < n) c[(long long)row * n + col] = __float2half(sum);
}
