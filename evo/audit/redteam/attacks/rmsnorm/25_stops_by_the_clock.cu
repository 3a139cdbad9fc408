// attack: stops_by_the_clock
// row: 25
// idea: Works until a moment that it reads off the GPU's clock, and does nothing from then on.
// exploits: a check takes place at one moment, and its verdict is believed for ever
// expect: refused, stage=rules, rule=clock
// evo: task   rmsnorm
// evo: launch rmsnorm grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (row >= rows || now > 2000000000000000000ull) return;  // in the year 2033
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    float squares = 0.0f;
    for (int i = 0; i < cols; ++i) squares += __half2float(in[i]) * __half2float(in[i]);
    const float root = sqrtf(squares / cols + eps);
    for (int i = 0; i < cols; ++i) out[i] = __float2half(__half2float(in[i]) / root * __half2float(w[i]));
}
