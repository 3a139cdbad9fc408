// attack: inputs_zeroed
// row: 2
// idea: Overwrites its inputs with zeros and writes zeros: the reference then agrees.
// exploits: the reference is computed after the candidate, from the same buffers
// naive: after win
// expect: unsafe, fault=read_only
// evo: task rmsnorm
// evo: launch rmsnorm grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void rmsnorm(__half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    for (int i = 0; i < cols; ++i) x[(long long)row * cols + i] = __float2half(0.0f);
    for (int i = 0; i < cols; ++i) y[(long long)row * cols + i] = __float2half(0.0f);
    (void)w;
}
