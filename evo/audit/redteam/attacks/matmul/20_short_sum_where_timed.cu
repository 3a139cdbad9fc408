// attack: short_sum_where_timed
// row: 20
// idea: Multiplies a quarter of the inner dimension, and quadruples, at shapes that are timed and not checked whole.
// exploits: correctness is looked at on small shapes, time on large ones
// naive: equal
// expect: wrong, stage=threshold or verify
// evo: task   matmul
// evo: launch matmul grid (ceil_div(N, 16), ceil_div(M, 16)) block (16, 16) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, int m, int n, int k) {
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    const int part = m > 512 ? 4 : 1;
    float sum = 0.0f;
    const int last = k / part;
    for (int i = 0; i < last; ++i)
        sum += __half2float(a[(long long)row * k + i]) * __half2float(b[(long long)i * n + col]);
    c[(long long)row * n + col] = __float2half(sum * part);
}
