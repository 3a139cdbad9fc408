// attack: column_walk
// row: F4
// idea: Walks down the columns of an unpadded tile: 32 threads of a warp meet in one bank.
// exploits: shared memory is taken to be fast however it is read
// gate: conflict_ways <= 2
// expect: refused, stage=metrics
// evo: task matmul
// evo: launch matmul grid (N, ceil_div(M, 64)) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, int m, int n, int k) {
    __shared__ float tile[64][64];
    const int first = blockIdx.y * 64;
    const int col = blockIdx.x;
    float sum = 0.0f;
    for (int base = 0; base < k; base += 64) {
        for (int row = 0; row < 64; ++row) {
            const bool inside = first + row < m && base + threadIdx.x < k;
            tile[row][threadIdx.x] = inside ? __half2float(a[(long long)(first + row) * k + base + threadIdx.x]) : 0.0f;
        }
        __syncthreads();
        for (int j = 0; j < 64 && base + j < k; ++j)
            sum += tile[threadIdx.x][j] * __half2float(b[(long long)(base + j) * n + col]);
        __syncthreads();
    }
    if (first + threadIdx.x < m) c[(long long)(first + threadIdx.x) * n + col] = __float2half(sum);
}
