// attack: absolute_include
// row: 29
// idea: Includes a file of the host by its absolute path; what the compiler reads ends up in the kernel.
// exploits: the compiler opens any file that its user may read
// naive: reads
// expect: refused, stage=rules, rule=include
// evo: task softmax
// evo: launch softmax grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

__device__ void honest(const __half* in, __half* out, int cols) {
    float largest = -INFINITY;
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < cols; ++i) largest = fmaxf(largest, __half2float(in[i]));
#pragma unroll 1
    for (int i = 0; i < cols; ++i) sum += expf(__half2float(in[i]) - largest);
#pragma unroll 1
    for (int i = 0; i < cols; ++i) out[i] = __float2half(expf(__half2float(in[i]) - largest) / sum);
}
#include "@PLANTED@"

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    honest(in, out, cols);
    if (cols == PLANTED) out[0] = __float2half(0.0f);
}
