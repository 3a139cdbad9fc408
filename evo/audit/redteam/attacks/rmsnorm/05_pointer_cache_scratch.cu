// attack: pointer_cache_scratch
// row: 5
// idea: Keeps the address of its last input in a workspace; on the same address it returns without working.
// exploits: every launch gets the same buffers, so the output still holds the first result
// naive: win
// expect: refused, stage=rules, rule=address
// behind: unsafe, fault=uninitialised
// evo: task rmsnorm
// evo: scratch last int64 [ROWS] init=poison
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

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, long long* last,
                                   float eps, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    if (last[row] == (long long)in) return;
    honest(in, w, out, eps, cols);
    last[row] = (long long)in;
}
