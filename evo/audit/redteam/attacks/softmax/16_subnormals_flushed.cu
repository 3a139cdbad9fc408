// attack: subnormals_flushed
// row: 16
// idea: Writes zero for every result below the least normal half.
// exploits: an absolute tolerance that is larger than most of the outputs
// expect: wrong, mismatch=tolerance
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
        out[i] = __float2half(value < 6.1035156e-5f ? 0.0f : value);
    }
}
