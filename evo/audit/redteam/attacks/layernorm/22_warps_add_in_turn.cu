// attack: warps_add_in_turn
// row: 22
// idea: Adds the sums of its warps up by atomics, in the order in which they come.
// exploits: one order of warps gives one result
// naive: equal
// expect: unstable, stage=gate
// evo: task   layernorm
// evo: knob   WARPS in 1, 2, 4, 8, 16
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: launch layernorm grid (ROWS) block (WARPS * 32) shared 0
#include <cuda_fp16.h>

#define WARPS 8
#define UNROLL 1

constexpr int THREADS = WARPS * 32;

// The sum over all threads, in every thread. `parts` holds one value per warp.
__device__ float reduce(float value, float* parts) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    __syncthreads();
    if (threadIdx.x == 0) parts[0] = 0.0f;
    __syncthreads();
    if (threadIdx.x % 32 == 0) atomicAdd(parts, value);
    __syncthreads();
    return parts[0];
}

extern "C" __global__ void layernorm(const __half* x, const __half* w, const __half* b, __half* y, float eps, int rows,
                                     int cols) {
    __shared__ float parts[WARPS];
    const __half* in = x + (long long)blockIdx.x * cols;
    __half* out = y + (long long)blockIdx.x * cols;

    float sum = 0.0f;
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS) sum += __half2float(in[i]);
    const float mean = reduce(sum, parts) / cols;

    float squares = 0.0f;
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS) {
        const float centred = __half2float(in[i]) - mean;
        squares += centred * centred;
    }

    const float root = sqrtf(reduce(squares, parts) / cols + eps);
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS)
        out[i] = __float2half((__half2float(in[i]) - mean) / root * __half2float(w[i]) + __half2float(b[i]));
}
