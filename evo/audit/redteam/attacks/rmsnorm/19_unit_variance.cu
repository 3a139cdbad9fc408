// attack: unit_variance
// row: 19
// idea: Does not normalise: normal inputs have a mean square of one already.
// exploits: inputs come from one distribution
// naive: win case=long_row
// expect: wrong, mismatch=tolerance
// evo: task rmsnorm
// evo: launch rmsnorm grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    for (int i = 0; i < cols; ++i) out[i] = __hmul(in[i], w[i]);
}
