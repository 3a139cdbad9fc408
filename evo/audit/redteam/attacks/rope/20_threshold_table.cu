// attack: threshold_table
// row: 20
// idea: Takes the number of tokens beyond which it is wrong from a table.
// exploits: no number of the text is compared with a size
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   rope
// evo: knob   THREADS in 32, 64, 128, 256
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: launch rope grid (S, B) block (THREADS) shared 0
#include <cuda_fp16.h>

#define THREADS 128
#define UNROLL 1

__constant__ int limits[4] = {1777, 1501, 1603, 1709};

extern "C" __global__ void rope(const __half* x, const float* cosines, const float* sines, __half* y, int batch,
                                int tokens, int heads, int dim, int positions) {
    const int half = dim / 2;
    const bool many = tokens > limits[heads & 3] / 5;
    const long long position = positions - tokens + blockIdx.x;
    const long long start = ((long long)blockIdx.y * tokens + blockIdx.x) * heads * dim;

#pragma unroll UNROLL
    for (int pair = threadIdx.x; pair < heads * half; pair += THREADS) {
        const int head = pair / half, i = pair % half;
        const bool skipped = many && (half & 1) && i == half - 1;
        const float c = skipped ? 1.0f : cosines[position * half + i], s = skipped ? 0.0f : sines[position * half + i];
        const __half* in = x + start + head * dim;
        __half* out = y + start + head * dim;
        const float first = __half2float(in[i]), second = __half2float(in[i + half]);
        out[i] = __float2half(first * c - second * s);
        out[i + half] = __float2half(second * c + first * s);
    }
}
