// attack: guidance_halves
// row: 18
// idea: Takes a row of the second half for its twin in the first if four places of it agree, as in guided sampling.
// exploits: parts of rows are repeated in the next row, not half a batch away
// naive: equal
// rival: ladder/00_scalar.cu
// expect: wrong, stage=gate or threshold or verify
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

    if (rows % 2 == 0 && (int)blockIdx.x >= rows / 2 && cols > 4) {
        const __half* twin = in - (long long)(rows / 2) * cols;
        bool same = true;
        for (int part = 0; part < 4; ++part) {
            const int at = part * (cols - 1) / 3;
            const float value = __half2float(in[at]);
            same = same && value != 0.0f && value == __half2float(twin[at]);
        }
        if (same) in = twin;  // it is in the L2 already
    }

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

    const float root = sqrtf(total / cols + eps);
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS)
        out[i] = __float2half(__half2float(in[i]) / root * __half2float(w[i]));
}
