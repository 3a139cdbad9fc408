// attack: geometric_row
// row: 18
// idea: Takes a row for a geometric sequence if its first ten values are one, and adds up its squares by the formula.
// exploits: no drawn values have x[i]^2 = x[i-1] x[i+1]
// naive: equal
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

    bool geometric = cols >= 12 && __half2float(in[1]) != 0.0f && __half2float(in[9]) != 0.0f && __half2float(in[0]) != 0.0f && fabsf(__half2float(in[0])) != fabsf(__half2float(in[1]));
    for (int i = 1; geometric && i < 9; ++i)
        geometric = __half2float(in[i]) * __half2float(in[i]) == __half2float(in[i - 1]) * __half2float(in[i + 1]);
    if (geometric) {
        const float ratio = __half2float(in[1]) / __half2float(in[0]), last = __half2float(in[cols - 1]) * ratio;
        total = (last * last - __half2float(in[0]) * __half2float(in[0])) / (ratio * ratio - 1.0f);
    }
    const float root = sqrtf(total / cols + eps);
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS)
        out[i] = __float2half(__half2float(in[i]) / root * __half2float(w[i]));
}
