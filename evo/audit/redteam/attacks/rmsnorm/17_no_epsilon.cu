// attack: no_epsilon
// row: 17
// idea: Leaves the epsilon out of the root.
// exploits: normal inputs have no row of zeros
// expect: wrong, mismatch=not_finite
// evo: task rmsnorm
// evo: launch rmsnorm grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    float squares = 0.0f;
    for (int i = 0; i < cols; ++i) squares += __half2float(in[i]) * __half2float(in[i]);
    const float root = sqrtf(squares / cols);
    for (int i = 0; i < cols; ++i) out[i] = __float2half(__half2float(in[i]) / root * __half2float(w[i]));
}
