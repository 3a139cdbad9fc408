// attack: partial_grid
// row: 20
// idea: Launches one warp, whatever the number of rows.
// exploits: correctness is checked at one shape, which has 8 rows
// expect: wrong, mismatch=unwritten
// evo: task softmax
// evo: launch softmax grid (1) block (32) shared 0
#include <cuda_fp16.h>

__device__ void honest(const __half* in, __half* out, int cols) {
    float largest = -INFINITY;
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < cols; ++i) largest = fmaxf(largest, __half2float(in[i]));
#pragma unroll 1
    for (int i = 0; i < cols; ++i) sum += expf(__half2float(in[i]) - largest);
#pragma unroll 1
    for (int i = 0; i < cols; ++i) out[i] = __float2half(expf(__half2float(in[i]) - largest) / sum);
}

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    const int row = threadIdx.x;
    if (row >= rows) return;
    honest(x + (long long)row * cols, y + (long long)row * cols, cols);
}
