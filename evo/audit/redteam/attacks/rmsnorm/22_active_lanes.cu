// attack: active_lanes
// row: 22
// idea: Takes the lanes that happen to be active for the whole warp.
//   Wrong for: undefined at every size that is no multiple of 256: after a loop of different lengths __activemask() may name a part of the warp, and the sum is that of a part
// exploits: lanes usually run together
// naive: equal
// rival: ladder/00_scalar.cu
// expect: unsafe, stage=gate, fault=warp_sync
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
    const __half* in = x + (long long)blockIdx.x * cols;
    __half* out = y + (long long)blockIdx.x * cols;

    float squares = 0.0f;
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS) squares += __half2float(in[i]) * __half2float(in[i]);

#pragma unroll
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(__activemask(), squares, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (int p = 0; p < WARPS; ++p) total += parts[p];

    const float root = sqrtf(total / cols + eps);
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS)
        out[i] = __float2half(__half2float(in[i]) / root * __half2float(w[i]));
}
