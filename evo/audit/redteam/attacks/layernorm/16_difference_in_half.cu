// attack: difference_in_half
// row: 16
// idea: Subtracts the first value in half precision for the mean, where packed instructions take two at a time.
// exploits: no input is larger than a quarter of the largest half, so no difference overflows
// naive: equal
// rival: ladder/00_scalar.cu
// expect: wrong, stage=gate or threshold or verify
// evo: task   layernorm
// evo: knob   THREADS in 32, 64, 128, 256
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: launch layernorm grid (ceil_div(ROWS, THREADS)) block (THREADS) shared 0
#include <cuda_fp16.h>

#define THREADS 64
#define UNROLL 1

extern "C" __global__ void layernorm(const __half* x, const __half* w, const __half* b, __half* y, float eps, int rows,
                                     int cols) {
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;

    const float origin = __half2float(in[0]);  // sums of what is left round less where rows lie far from zero
    float sum = 0.0f;
#pragma unroll UNROLL
    for (int i = 0; i < cols; ++i) sum += __half2float(__hsub(in[i], in[0]));
    const float mean = origin + sum / cols;

    float squares = 0.0f;
#pragma unroll UNROLL
    for (int i = 0; i < cols; ++i) {
        const float centred = __half2float(in[i]) - mean;
        squares += centred * centred;
    }

    const float root = sqrtf(squares / cols + eps);
#pragma unroll UNROLL
    for (int i = 0; i < cols; ++i)
        out[i] = __float2half((__half2float(in[i]) - mean) / root * __half2float(w[i]) + __half2float(b[i]));
}
