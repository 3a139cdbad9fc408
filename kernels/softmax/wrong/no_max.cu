// expect: wrong, mismatch=not_finite
// Exponentiates without subtracting the row maximum: large inputs overflow, and inf / inf is NaN.
// evo: task   softmax
// evo: knob   THREADS in 32, 64, 128, 256
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: launch softmax grid (ceil_div(ROWS, THREADS)) block (THREADS) shared 0
#include <cuda_fp16.h>

#define THREADS 64
#define UNROLL 1

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;

    float sum = 0.0f;
#pragma unroll UNROLL
    for (int i = 0; i < cols; ++i) sum += expf(__half2float(in[i]));

#pragma unroll UNROLL
    for (int i = 0; i < cols; ++i) out[i] = __float2half(expf(__half2float(in[i])) / sum);
}
