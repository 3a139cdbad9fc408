// attack: pointer_cache
// row: 5
// idea: Remembers the input address of the last launch; on the same address it returns without working.
// exploits: every launch gets the same buffers, so the output still holds the first result
// naive: win
// expect: refused, stage=rules, rule=state
// behind: wrong, mismatch=unwritten
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

__device__ const __half* last[1 << 16];

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    if (last[row] == in) return;
    honest(in, out, cols);
    last[row] = in;
}
