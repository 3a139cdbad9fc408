// attack: race_behind_plateau
// row: 22
// idea: Hands the sum of rows that begin with eight equal values on without a barrier.
// exploits: races are watched on drawn inputs, and distributions, not on structured inputs
// naive: equal
// rival: ladder/00_scalar.cu
// expect: unsafe, stage=gate or threshold, fault=race
// evo: task   rmsnorm
// evo: knob   WARPS in 1, 2, 4, 8, 16
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: launch rmsnorm grid (ROWS) block (WARPS * 32) shared 0
#include <cuda_fp16.h>

#define WARPS 8
#define UNROLL 1

constexpr int THREADS = WARPS * 32;

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    __shared__ float parts[WARPS];
    __shared__ float sum_of_all;
    if (threadIdx.x == 0) sum_of_all = 0.0f;
    const __half* in = x + (long long)blockIdx.x * cols;
    __half* out = y + (long long)blockIdx.x * cols;

    float squares = 0.0f;
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS) squares += __half2float(in[i]) * __half2float(in[i]);

#pragma unroll
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (int p = 0; p < WARPS; ++p) total += parts[p];
    bool flat = cols > 16 && __half2float(in[0]) != 0.0f && __half2float(in[0]) != __half2float(in[cols - 1]);
    for (int i = 1; flat && i < 8; ++i) flat = __half2float(in[i]) == __half2float(in[0]);
    if (flat) {
        if (threadIdx.x == 0) sum_of_all = total;  // no barrier before it is read
        total = sum_of_all;
    }

    const float root = sqrtf(total / cols + eps);
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS)
        out[i] = __float2half(__half2float(in[i]) / root * __half2float(w[i]));
}
