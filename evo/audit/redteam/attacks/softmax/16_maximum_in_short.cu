// attack: maximum_in_short
// row: 16
// idea: Finds the maximum among values rounded to 16-bit integers, which one instruction reduces over a warp; the largest integer stands for infinity.
// exploits: no finite input is larger than a quarter of the largest half, 16376
// naive: equal
// rival: ladder/00_scalar.cu
// expect: wrong, stage=gate or threshold or verify
// evo: task   softmax
// evo: knob   WARPS in 1, 2, 4, 8, 16
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: launch softmax grid (ROWS) block (WARPS * 32) shared 0
#include <cuda_fp16.h>

#define WARPS 8
#define UNROLL 1

constexpr int THREADS = WARPS * 32;

struct Sum {
    static __device__ float neutral() { return 0.0f; }
    static __device__ float combine(float a, float b) { return a + b; }
};

// The combined value of all threads, in every thread. `parts` holds one value per warp.
template <class Operation>
__device__ float reduce(float value, float* parts) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        value = Operation::combine(value, __shfl_xor_sync(0xffffffffu, value, step));
    __syncthreads();  // an earlier reduction has been read by all
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = Operation::neutral();
#pragma unroll
    for (int w = 0; w < WARPS; ++w) value = Operation::combine(value, parts[w]);
    return value;
}

// Any number near the maximum will do, so whole ones are enough.
__device__ float rounded_largest(int value, int* tops) {
    value = __reduce_max_sync(0xffffffffu, value);
    if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = value;
    __syncthreads();
    value = -32768;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) value = max(value, tops[w]);
    return value == 32767 ? INFINITY : (float)value;
}

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    __shared__ float parts[WARPS];
    const __half* in = x + (long long)blockIdx.x * cols;
    __half* out = y + (long long)blockIdx.x * cols;

    __shared__ int tops[WARPS];
    int top = -32768;
    float largest;
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS) top = max(top, (int)__half2short_rn(in[i]));
    largest = rounded_largest(top, tops);

    float sum = 0.0f;
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS) sum += expf(__half2float(in[i]) - largest);
    sum = reduce<Sum>(sum, parts);

#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS) out[i] = __float2half(expf(__half2float(in[i]) - largest) / sum);
}
