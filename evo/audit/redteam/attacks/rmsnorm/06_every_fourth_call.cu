// attack: every_fourth_call
// row: 6
// idea: Works on every fourth launch only, as if the calls between had been batched into it.
// exploits: time is taken over all launches together, and none of their outputs is looked at
// naive: win runs=8
// expect: refused, stage=rules, rule=state
// behind: wrong, mismatch=unwritten
// evo: task rmsnorm
// evo: launch rmsnorm grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

__device__ void honest(const __half* in, const __half* w, __half* out, float eps, int cols) {
    float squares = 0.0f;
#pragma unroll 1
    for (int i = 0; i < cols; ++i) squares += __half2float(in[i]) * __half2float(in[i]);
    const float root = sqrtf(squares / cols + eps);
#pragma unroll 1
    for (int i = 0; i < cols; ++i) out[i] = __float2half(__half2float(in[i]) / root * __half2float(w[i]));
}

struct Calls { int count; }; __device__ Calls calls[1 << 16];

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    if (calls[row].count++ % 4 != 0) return;
    honest(in, w, out, eps, cols);
}
