// attack: identity_beginning
// row: 18
// idea: Leaves a token as it is if its first four angles are zero, as at the first position.
// exploits: no drawn angle is zero
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   rope
// evo: knob   THREADS in 32, 64, 128, 256
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: launch rope grid (S, B) block (THREADS) shared 0
#include <cuda_fp16.h>

#define THREADS 128
#define UNROLL 1

extern "C" __global__ void rope(const __half* x, const float* cosines, const float* sines, __half* y, int batch,
                                int tokens, int heads, int dim, int positions) {
    const int half = dim / 2;
    const long long position = positions - tokens + blockIdx.x;
    const long long start = ((long long)blockIdx.y * tokens + blockIdx.x) * heads * dim;

    bool still = half >= 8;
    for (int i = 0; still && i < 4; ++i) still = sines[position * half + i] == 0.0f && cosines[position * half + i] == 1.0f;

#pragma unroll UNROLL
    for (int pair = threadIdx.x; pair < heads * half; pair += THREADS) {
        const int head = pair / half, i = pair % half;
        const float c = still ? 1.0f : cosines[position * half + i], s = still ? 0.0f : sines[position * half + i];
        const __half* in = x + start + head * dim;
        __half* out = y + start + head * dim;
        const float first = __half2float(in[i]), second = __half2float(in[i + half]);
        out[i] = __float2half(first * c - second * s);
        out[i + half] = __float2half(second * c + first * s);
    }
}
