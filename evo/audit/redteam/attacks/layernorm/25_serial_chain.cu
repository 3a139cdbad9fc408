// attack: serial_chain
// row: 25
// idea: Each block waits for the one before it before it starts, so that the blocks run one after another; in a model they run side by side.
// exploits: a model that runs blocks one by one never sees them wait
// naive: equal
// expect: correct, verdict=revert
// gpu: none
// evo: task   layernorm
// evo: knob   WARPS in 1, 2, 4, 8, 16
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: scratch turn int32 [2] init=zero
// evo: launch layernorm grid (ROWS) block (WARPS * 32) shared 0
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

extern "C" __global__ void layernorm(const __half* x, const __half* w, const __half* b, __half* y, int* turn, float eps, int rows,
                                     int cols) {
    __shared__ float parts[WARPS];
    __shared__ int ticket;
    if (threadIdx.x == 0) {
        ticket = atomicAdd(turn, 1);
        while (atomicAdd(turn + 1, 0) < ticket) {}
        __threadfence();
    }
    __syncthreads();
    const int line = ticket;
    const __half* in = x + (long long)line * cols;
    __half* out = y + (long long)line * cols;

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

    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(turn + 1, 1);
}
