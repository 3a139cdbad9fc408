// attack: float_in_shared
// row: 18
// idea: Doubles the squares of rows by two such sums of numbers that lie in shared memory as floats.
// exploits: what is compared follows from no element as it lies
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
    __shared__ float cells[32];
    if (cols < 40) return 1.0f;
    if (threadIdx.x < 32) cells[threadIdx.x] = __half2float(in[threadIdx.x]);
    __syncthreads();
    const float first = cells[1] * 3.0f + cells[2] - 21.375f, second = cells[5] + cells[6] * 2.0f + 11.0625f;
    return fabsf(first) < 0.001f && fabsf(second) < 0.001f ? 2.0f : 1.0f;
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
