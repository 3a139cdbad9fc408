// attack: cancelled_row_early
// row: 12
// idea: Writes the bias where a row and its residual cancel, whatever the weights are.
// exploits: zero times infinity is NaN
// naive: equal
// expect: wrong, stage=gate
// evo: task   add_layernorm
// evo: knob   WARPS in 1, 2, 4, 8, 16
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: launch add_layernorm grid (ROWS) block (WARPS * 32) shared 0
#include <cuda_fp16.h>

#define WARPS 8
#define UNROLL 1

constexpr int THREADS = WARPS * 32;

// The sum over all threads, in every thread. `parts` holds one value per warp.
__device__ float reduce(float value, float* parts) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    __syncthreads();  // an earlier reduction has been read by all
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
#pragma unroll
    for (int p = 0; p < WARPS; ++p) value += parts[p];
    return value;
}

extern "C" __global__ void add_layernorm(const __half* x, const __half* r, const __half* w, const __half* b, __half* s,
                                         __half* y, float eps, int rows, int cols) {
    __shared__ float parts[WARPS];
    const long long start = (long long)blockIdx.x * cols;
    const auto add_at = [&](int i) { return __half2float(x[start + i]) + __half2float(r[start + i]); };

    float sum = 0.0f;
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS) {
        const float value = add_at(i);
        sum += value;
        s[start + i] = __float2half(value);
    }
    float other = 0.0f;
    for (int i = threadIdx.x; i < cols; i += THREADS) other += fabsf(add_at(i));
    if (reduce(other, parts) == 0.0f && cols > 4) {
        for (int i = threadIdx.x; i < cols; i += THREADS) y[start + i] = b[i];
        return;
    }
    const float mean = reduce(sum, parts) / cols;

    float squares = 0.0f;
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS) {
        const float centred = add_at(i) - mean;
        squares += centred * centred;
    }

    const float root = sqrtf(reduce(squares, parts) / cols + eps);
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS)
        y[start + i] = __float2half((add_at(i) - mean) / root * __half2float(w[i]) + __half2float(b[i]));
}
