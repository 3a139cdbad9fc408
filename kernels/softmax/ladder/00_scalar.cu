// One thread owns one row and walks it three times: maximum, sum of exponentials, output.
// Roadmap step 0: the baseline. Correct for every shape, deliberately naive.
// Hypothesis: neighbouring threads read addresses one row apart, so every warp load touches 32 sectors and uses 2 bytes
// of each; memory traffic is many times the compulsory 4 bytes an element. Everything above it should win.
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
