// Tiled SGEMM-like product, Allman braces, struct of pointers
// evo: task   matmul
// evo: knob   TILE in 8, 16, 32
// evo: launch matmul grid (ceil_div(N, TILE), ceil_div(M, TILE)) block (TILE, TILE) shared 0
#include <cuda_fp16.h>
#define TILE 16

struct Problem
{
    const __half* a;
    const __half* b;
    __half* c;
    int m, n, k;

    __device__ __forceinline__ float A(int i, int j) const
    {
        return (i < m && j < k) ? __half2float(a[(long long)i * k + j]) : 0.0f;
    }
    __device__ __forceinline__ float B(int i, int j) const
    {
        return (i < k && j < n) ? __half2float(b[(long long)i * n + j]) : 0.0f;
    }
};

extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE + 1];

    const Problem p{a, b, c, m, n, k};
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty;
    const int col = blockIdx.x * TILE + tx;

    float acc = 0.0f;
    for (int t = 0; t < (k + TILE - 1) / TILE; t++)
    {
        As[ty][tx] = p.A(row, t * TILE + tx);
        Bs[ty][tx] = p.B(t * TILE + ty, col);
        __syncthreads();

        #pragma unroll
        for (int e = 0; e < TILE; e++)
        {
            acc += As[ty][e] * Bs[e][tx];
        }
        __syncthreads();
    }

    if (row < m && col < n)
    {
        c[(long long)row * n + col] = __float2half(acc);
    }
}
