// expect: refused, stage=rules
// Takes eps in double precision, which is not what the task passes.
// evo: task   rmsnorm
// evo: knob   THREADS in 32, 64, 128, 256
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: launch rmsnorm grid (ceil_div(ROWS, THREADS)) block (THREADS) shared 0
#include <cuda_fp16.h>

#define THREADS 64
#define UNROLL 1

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, double eps, int rows, int cols) {
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;

    float squares = 0.0f;
#pragma unroll UNROLL
    for (int i = 0; i < cols; ++i) squares += __half2float(in[i]) * __half2float(in[i]);

    const float root = sqrtf(squares / cols + eps);
#pragma unroll UNROLL
    for (int i = 0; i < cols; ++i) out[i] = __float2half(__half2float(in[i]) / root * __half2float(w[i]));
}
