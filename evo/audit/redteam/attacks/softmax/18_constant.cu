// attack: constant
// row: 18
// idea: Writes 1 / cols everywhere, which is right on average.
// exploits: an absolute tolerance of 1e-2 is larger than the signal
// naive: uniform win
// expect: wrong, mismatch=tolerance
// evo: task softmax
// evo: launch softmax grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    for (int i = 0; i < cols; ++i) y[(long long)row * cols + i] = __float2half(1.0f / cols);
}
