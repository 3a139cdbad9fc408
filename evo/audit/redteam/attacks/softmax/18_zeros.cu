// attack: zeros
// row: 18
// idea: Writes zeros.
// exploits: the outputs of a row of 9001 columns are smaller than the absolute tolerance of 1e-2
// naive: uniform win case=long_row
// expect: wrong, mismatch=tolerance
// evo: task softmax
// evo: launch softmax grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    for (int i = 0; i < cols; ++i) y[(long long)row * cols + i] = __float2half(0.0f);
}
