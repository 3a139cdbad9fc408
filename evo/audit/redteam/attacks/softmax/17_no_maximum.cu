// attack: no_maximum
// row: 17
// idea: Exponentiates without subtracting the row maximum: one pass over the row less.
// exploits: normal inputs never leave the range of exp
// naive: win
// expect: wrong, mismatch=not_finite
// evo: task softmax
// evo: launch softmax grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    float sum = 0.0f;
    for (int i = 0; i < cols; ++i) sum += expf(__half2float(in[i]));
    for (int i = 0; i < cols; ++i) out[i] = __float2half(expf(__half2float(in[i])) / sum);
}
