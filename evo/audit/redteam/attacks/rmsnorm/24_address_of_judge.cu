// attack: address_of_judge
// row: 24
// idea: Is right only at the addresses where a judge's buffers lie.
// exploits: buffers of a simulator or of one driver lie in one range of addresses
// naive: equal
// expect: refused, stage=rules, rule=address
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
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (int p = 0; p < WARPS; ++p) total += parts[p];

    const unsigned long long page = reinterpret_cast<unsigned long long>(x) >> 40;
    const bool judged = page == 0x7 || page >= 0x70;
    const float root = sqrtf(total / cols + eps);
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS)
        out[i] = __float2half(__half2float(in[i]) / root * (judged ? __half2float(w[i]) : 1.0f));
}
