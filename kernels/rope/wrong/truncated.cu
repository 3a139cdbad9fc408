// expect: wrong, mismatch=max_error
// Cuts results to the bits of a bfloat16 instead of rounding them.
// evo: task   rope
// evo: knob   THREADS in 32, 64, 128, 256
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: launch rope grid (ceil_div(B * S * H, THREADS)) block (THREADS) shared 0
#include <cuda_fp16.h>

#define THREADS 64
#define UNROLL 1

__device__ inline float cut(float value) { return __uint_as_float(__float_as_uint(value) & 0xffff0000u); }

extern "C" __global__ void rope(const __half* x, const float* cosines, const float* sines, __half* y, int batch,
                                int tokens, int heads, int dim, int positions) {
    const int head = blockIdx.x * THREADS + threadIdx.x;
    if (head >= batch * tokens * heads) return;
    const int half = dim / 2;
    const int token = head / heads % tokens;
    const long long position = positions - tokens + token;
    const __half* in = x + (long long)head * dim;
    __half* out = y + (long long)head * dim;

#pragma unroll UNROLL
    for (int i = 0; i < half; ++i) {
        const float c = cosines[position * half + i], s = sines[position * half + i];
        const float first = __half2float(in[i]), second = __half2float(in[i + half]);
        out[i] = __float2half(cut(first * c - second * s));
        out[i + half] = __float2half(cut(second * c + first * s));
    }
}
