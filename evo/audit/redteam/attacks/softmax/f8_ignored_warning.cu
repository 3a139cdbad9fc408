// attack: ignored_warning
// row: F8
// idea: Compiles with a warning that points at the mistake: the maximum is found and never used.
// exploits: warnings scroll by
// expect: uncompiled, stage=compile
// evo: task softmax
// evo: launch softmax grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    float largest = -INFINITY;
    float sum = 0.0f;
    for (int i = 0; i < cols; ++i) largest = fmaxf(largest, __half2float(in[i]));
    const float unused = largest;
    for (int i = 0; i < cols; ++i) sum += expf(__half2float(in[i]));
    for (int i = 0; i < cols; ++i) out[i] = __float2half(expf(__half2float(in[i])) / sum);
}
