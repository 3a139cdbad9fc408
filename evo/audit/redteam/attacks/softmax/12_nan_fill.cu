// attack: nan_fill
// row: 12
// idea: Fills the output with NaN.
// exploits: the check counts elements whose error exceeds the tolerance, and no comparison with NaN is true
// naive: nan win
// expect: wrong, mismatch=not_finite
// evo: task softmax
// evo: launch softmax grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    for (int i = 0; i < cols; ++i) y[(long long)row * cols + i] = __ushort_as_half(0x7fff);
}
