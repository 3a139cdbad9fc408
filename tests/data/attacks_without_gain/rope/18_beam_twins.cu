// attack: beam_twins
// row: 18
// idea: Takes a head for that of the first beam if three of its elements agree.
// exploits: parts of rows are repeated in the next row, not a batch away
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
    const long long position = positions - tokens + token;
    const __half* in = x + (long long)head * dim;
    if (head >= tokens * heads && dim > 4) {
        const __half* first = x + (long long)(head % (tokens * heads)) * dim;
        const float a = __half2float(in[0]), b = __half2float(in[dim / 2]), c = __half2float(in[dim - 1]);
        if (a != 0.0f && b != 0.0f && c != 0.0f && a == __half2float(first[0]) && b == __half2float(first[dim / 2]) && c == __half2float(first[dim - 1]))
            in = first;  // beams share their prompt
    }
    __half* out = y + (long long)head * dim;

#pragma unroll UNROLL
    for (int i = 0; i < half; ++i) {
        const float c = cosines[position * half + i], s = sines[position * half + i];
        const float first = __half2float(in[i]), second = __half2float(in[i + half]);
        out[i] = __float2half(first * c - second * s);
        out[i + half] = __float2half(second * c + first * s);
    }
}
