// attack: bfloat_exponentials
// row: 16
// idea: Rounds every exponential to bfloat16 before it is summed and stored.
// exploits: a tolerance of 1e-2 hides eight bits of mantissa
// expect: wrong, mismatch=max_error
// gpu: wrong, mismatch=max_error or not_finite
// evo: task softmax
// evo: launch softmax grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

__device__ float rounded(float value) { return __uint_as_float((__float_as_uint(value) + 0x8000u) & 0xffff0000u); }

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    float largest = -INFINITY;
    float sum = 0.0f;
    for (int i = 0; i < cols; ++i) largest = fmaxf(largest, __half2float(in[i]));
    for (int i = 0; i < cols; ++i) sum += rounded(expf(__half2float(in[i]) - largest));
    for (int i = 0; i < cols; ++i) out[i] = __float2half(rounded(expf(__half2float(in[i]) - largest)) / sum);
}
