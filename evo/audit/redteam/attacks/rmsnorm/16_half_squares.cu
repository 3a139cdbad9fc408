// attack: half_squares
// row: 16
// idea: Adds the squares of a row up in half precision.
// exploits: a tolerance of 1e-2 hides the lost bits, and normal inputs do not overflow
// naive: case=one_row
// expect: wrong, stage=gate
// evo: task rmsnorm
// evo: launch rmsnorm grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    __half squares = __float2half(0.0f);
    for (int i = 0; i < cols; ++i) squares = __hfma(in[i], in[i], squares);
    const float root = sqrtf(__half2float(squares) / cols + eps);
    for (int i = 0; i < cols; ++i) out[i] = __float2half(__half2float(in[i]) / root * __half2float(w[i]));
}
