// attack: local_memory
// row: F5
// idea: Keeps a part of its row in an array with a running index, which the compiler puts into local memory.
// exploits: the compiler said so in a line that nobody read
// gate: local_bytes == 0
// expect: refused, stage=metrics
// evo: task rmsnorm
// evo: launch rmsnorm grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    float kept[64];
    float squares = 0.0f;
    for (int i = 0; i < cols; ++i) {
        kept[(i * 7) & 63] = __half2float(in[i]);
        squares += kept[(i * 7) & 63] * __half2float(in[i]);
    }
    const float root = sqrtf(squares / cols + eps);
    for (int i = cols - 1; i >= 0; --i) {
        const float value = cols <= 64 ? kept[(i * 7) & 63] : __half2float(in[i]);
        out[i] = __float2half(value / root * __half2float(w[i]));
    }
}
