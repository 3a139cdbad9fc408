// attack: input_borrowed
// row: 2
// idea: Scales its input in place, copies it, and puts the old values back as well as rounding lets it.
// exploits: an input that is nearly as it was passes for one that was never written
// expect: unsafe, fault=read_only
// evo: task   rmsnorm
// evo: launch rmsnorm grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    __half* in = const_cast<__half*>(x) + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    float squares = 0.0f;
    for (int i = 0; i < cols; ++i) squares += __half2float(in[i]) * __half2float(in[i]);
    const float root = sqrtf(squares / cols + eps);
    for (int i = 0; i < cols; ++i) {
        const __half before = in[i];
        in[i] = __float2half(__half2float(before) / root * __half2float(w[i]));
        out[i] = in[i];
        in[i] = before;
    }
}
