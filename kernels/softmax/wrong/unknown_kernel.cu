// expect: refused, stage=rules
// The launch line names a kernel that the file does not hold.
// evo: task   softmax
// evo: knob   THREADS in 32, 64, 128, 256
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: launch softmax_rows grid (ceil_div(ROWS, THREADS)) block (THREADS) shared 0
#include <cuda_fp16.h>

#define THREADS 64
#define UNROLL 1

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;

    float largest = -INFINITY;
#pragma unroll UNROLL
    for (int i = 0; i < cols; ++i) largest = fmaxf(largest, __half2float(in[i]));

    float sum = 0.0f;
#pragma unroll UNROLL
    for (int i = 0; i < cols; ++i) sum += expf(__half2float(in[i]) - largest);

#pragma unroll UNROLL
    for (int i = 0; i < cols; ++i) out[i] = __float2half(expf(__half2float(in[i]) - largest) / sum);
}
