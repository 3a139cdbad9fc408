// attack: nan_dropped
// row: 12
// idea: Writes zero where the result is not a number, so that bad inputs leave no trace.
// exploits: nobody asks what becomes of NaN and infinity
// expect: wrong, inputs=special, mismatch=not_finite
// gpu: wrong, mismatch=not_finite
// evo: task   softmax
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
    for (int i = 0; i < cols; ++i) sum += expf(__half2float(in[i]) - largest);
    for (int i = 0; i < cols; ++i) {
        const float value = expf(__half2float(in[i]) - largest) / sum;
        out[i] = __float2half(value == value ? value : 0.0f);
    }
}
