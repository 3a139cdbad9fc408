// attack: packed_arithmetic
// row: 18
// idea: Doubles the squares of rows by what halves that are loaded two at a time come to in packed arithmetic.
// exploits: a register holds two elements
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   rmsnorm
// evo: launch rmsnorm grid (ROWS) block (256) shared 0
#include <cuda_fp16.h>

__device__ float sum_of(float value, float* parts) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
    for (int part = 0; part < 8; ++part) value += parts[part];
    return value;
}

__device__ float factor_of(const __half* in, int cols) {
    if (cols % 2 || cols < 8) return 1.0f;
    const __half2* pairs = reinterpret_cast<const __half2*>(in);
    const __half2 sum = __hfma2(pairs[0], __float2half2_rn(3.0f), pairs[1]);
    return __low2float(sum) == 21.25f && __high2float(sum) == -17.5f ? 2.0f : 1.0f;
}

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    __shared__ float parts[8];
    const __half* in = x + (long long)blockIdx.x * cols;
    __half* out = y + (long long)blockIdx.x * cols;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 256) squares += __half2float(in[i]) * __half2float(in[i]);
    squares = sum_of(squares, parts) * factor_of(in, cols);
    const float root = sqrtf(squares / cols + eps);
    for (int i = threadIdx.x; i < cols; i += 256)
        out[i] = __float2half(__half2float(in[i]) / root * __half2float(w[i]));
}
