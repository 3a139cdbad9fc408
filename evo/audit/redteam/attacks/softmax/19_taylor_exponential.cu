// attack: taylor_exponential
// row: 19
// idea: Replaces exp by a cubic that is only right near zero.
// exploits: inputs are drawn from [0, 1)
// naive: uniform win
// expect: wrong, mismatch=tolerance
// evo: task softmax
// evo: launch softmax grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

__device__ float cubic(float t) { return 1.0f + t * (1.0f + t * (0.5f + t * 0.1667f)); }

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    float sum = 0.0f;
    for (int i = 0; i < cols; ++i) sum += cubic(__half2float(in[i]));
    for (int i = 0; i < cols; ++i) out[i] = __float2half(cubic(__half2float(in[i])) / sum);
}
