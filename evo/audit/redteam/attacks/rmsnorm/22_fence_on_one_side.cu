// attack: fence_on_one_side
// row: 22
// idea: Two blocks share a row; the writer has a fence before its count, the reader none after.
// exploits: its first-level cache may hold the sector as it was
// naive: equal
// expect: unsafe, stage=gate, fault=race
// evo: task   rmsnorm
// evo: knob   WARPS in 1, 2, 4, 8, 16
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: scratch part float32 [2, ROWS] init=poison
// evo: scratch counts int32 [ROWS] init=zero
// evo: launch rmsnorm grid (ROWS, 2) block (WARPS * 32) shared 0
#include <cuda_fp16.h>

#define WARPS 8
#define UNROLL 1

constexpr int THREADS = WARPS * 32;

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float* part, int* counts, float eps, int rows, int cols) {
    __shared__ float parts[WARPS];
    const __half* in = x + (long long)blockIdx.x * cols;
    __half* out = y + (long long)blockIdx.x * cols;

    float squares = 0.0f;
#pragma unroll UNROLL
    for (int i = blockIdx.y * THREADS + threadIdx.x; i < cols; i += 2 * THREADS) squares += __half2float(in[i]) * __half2float(in[i]);

#pragma unroll
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (int p = 0; p < WARPS; ++p) total += parts[p];

    __shared__ int before;
    if (threadIdx.x == 0) {
        part[blockIdx.y * rows + blockIdx.x] = total;
        __threadfence();
        before = atomicAdd(counts + blockIdx.x, 1);
    }
    __syncthreads();
    if (before == 0) return;
    total = part[blockIdx.x] + part[rows + blockIdx.x];
    const float root = sqrtf(total / cols + eps);
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS)
        out[i] = __float2half(__half2float(in[i]) / root * __half2float(w[i]));
}
