// expect: wrong, mismatch=tolerance
// Takes the row of the tables before the token's, except at the first position.
// evo: task   rope
// evo: knob   THREADS in 32, 64, 128, 256
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: launch rope grid (ceil_div(B * S * H, THREADS)) block (THREADS) shared 0
#include <cuda_fp16.h>

#define THREADS 64
#define UNROLL 1

extern "C" __global__ void rope(const __half* x, const float* cosines, const float* sines, __half* y, int batch,
                                int tokens, int heads, int dim, int positions) {
    const int head = blockIdx.x * THREADS + threadIdx.x;
    if (head >= batch * tokens * heads) return;
    const int half = dim / 2;
    const int token = head / heads % tokens;
    const long long position = max(positions - tokens + token - 1, 0);
    const __half* in = x + (long long)head * dim;
    __half* out = y + (long long)head * dim;

#pragma unroll UNROLL
    for (int i = 0; i < half; ++i) {
        const float c = cosines[position * half + i], s = sines[position * half + i];
        const float first = __half2float(in[i]), second = __half2float(in[i + half]);
        out[i] = __float2half(first * c - second * s);
        out[i + half] = __float2half(second * c + first * s);
    }
}
