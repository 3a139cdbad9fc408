// expect: wrong, mismatch=tolerance
// Adds up the squares in fp16, where they overflow, or stop growing once they are large against the next.
// evo: task   add_layernorm
// evo: knob   THREADS in 32, 64, 128, 256
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: launch add_layernorm grid (ceil_div(ROWS, THREADS)) block (THREADS) shared 0
#include <cuda_fp16.h>

#define THREADS 64
#define UNROLL 1

extern "C" __global__ void add_layernorm(const __half* x, const __half* r, const __half* w, const __half* b, __half* s,
                                         __half* y, float eps, int rows, int cols) {
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    const long long start = (long long)row * cols;
    const auto add_at = [&](int i) { return __half2float(x[start + i]) + __half2float(r[start + i]); };

    const float origin = add_at(0);  // sums of what is left round less where rows lie far from zero
    float sum = 0.0f;
#pragma unroll UNROLL
    for (int i = 0; i < cols; ++i) {
        const float value = add_at(i);
        sum += value - origin;
        s[start + i] = __float2half(value);
    }
    const float mean = origin + sum / cols;

    __half squares = __float2half(0.0f);
#pragma unroll UNROLL
    for (int i = 0; i < cols; ++i) {
        const float centred = add_at(i) - mean;
        squares = __hadd(squares, __float2half(centred * centred));
    }

    const float root = sqrtf(__half2float(squares) / cols + eps);
#pragma unroll UNROLL
    for (int i = 0; i < cols; ++i)
        y[start + i] = __float2half((add_at(i) - mean) / root * __half2float(w[i]) + __half2float(b[i]));
}
