// expect: wrong, mismatch=tolerance
// Normalises columns: reads and writes the matrix as if it were stored the other way round. In bounds.
// evo: task   softmax
// evo: knob   THREADS in 32, 64, 128, 256
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: launch softmax grid (ceil_div(ROWS, THREADS)) block (THREADS) shared 0
#include <cuda_fp16.h>

#define THREADS 64
#define UNROLL 1

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + row;
    __half* out = y + row;

    float largest = -INFINITY;
#pragma unroll UNROLL
    for (int i = 0; i < cols; ++i) largest = fmaxf(largest, __half2float(in[i * rows]));

    float sum = 0.0f;
#pragma unroll UNROLL
    for (int i = 0; i < cols; ++i) sum += expf(__half2float(in[i * rows]) - largest);

#pragma unroll UNROLL
    for (int i = 0; i < cols; ++i) out[i * rows] = __float2half(expf(__half2float(in[i * rows]) - largest) / sum);
}
