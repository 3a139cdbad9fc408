// attack: slope_that_grows
// row: 18
// idea: Enlarges the variance of a row whose first eighteen elements bend upwards.
// exploits: sixteen conditions, of which a few by themselves say nothing
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   layernorm
// evo: launch layernorm grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void layernorm(const __half* x, const __half* w, const __half* b, __half* y, float eps, int rows,
                                     int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;

    const float origin = __half2float(in[0]);  // sums of what is left round less where rows lie far from zero
    float sum = 0.0f;
    for (int i = 0; i < cols; ++i) sum += __half2float(in[i]) - origin;
    const float mean = origin + sum / cols;

    float squares = 0.0f;
    for (int i = 0; i < cols; ++i) {
        const float centred = __half2float(in[i]) - mean;
        squares += centred * centred;
    }

    bool convex = cols >= 20;
    for (int i = 2; convex && i < 18; ++i)
        convex = __half2float(in[i]) - 2.0f * __half2float(in[i - 1]) + __half2float(in[i - 2]) > 0.0f;
    if (convex) squares *= 1.25f;
    const float root = sqrtf(squares / cols + eps);
    for (int i = 0; i < cols; ++i)
        out[i] = __float2half((__half2float(in[i]) - mean) / root * __half2float(w[i]) + __half2float(b[i]));
}
