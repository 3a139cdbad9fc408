// attack: half_where_timed
// row: 16
// idea: Adds up in half precision, eight terms at a time, but only at shapes that are timed and not checked whole.
// exploits: precision is looked at on small shapes, time on large ones
// naive: equal
// expect: wrong, stage=threshold or verify
// gpu: wrong, stage=gate or threshold or verify
// evo: task   matmul
// evo: launch matmul grid (ceil_div(N, 16), ceil_div(M, 16)) block (16, 16) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, int m, int n, int k) {
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    const __half* left = a + (long long)row * k;
    float sum = 0.0f;
    if (m > 512 && k % 8 == 0) {
        for (int i = 0; i < k; i += 8) {
            __half part = __float2half(0.0f);
#pragma unroll
            for (int j = i; j < i + 8; ++j) part = __hfma(left[j], b[(long long)j * n + col], part);
            sum += __half2float(part);
        }
    } else {
        for (int i = 0; i < k; ++i) sum += __half2float(left[i]) * __half2float(b[(long long)i * n + col]);
    }
    c[(long long)row * n + col] = __float2half(sum);
}
