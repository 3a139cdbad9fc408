// attack: leaning
// row: 18
// idea: Adds up one term of each row less where it is long, which leans every result by a little.
// exploits: a relative tolerance of 1e-2 has room for a sum that is a hundredth short
// expect: wrong, mismatch=bias
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
    for (int i = 0; i < cols; ++i) sum += i % 1024 == 1023 ? 0.0f : expf(__half2float(in[i]) - largest);
    for (int i = 0; i < cols; ++i) out[i] = __float2half(expf(__half2float(in[i]) - largest) / sum);
}
