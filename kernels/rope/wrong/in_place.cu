// expect: unsafe, fault=read_only
// Turns x in place, as some libraries do, and copies it out.
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

#pragma unroll UNROLL
    for (int pair = threadIdx.x; pair < heads * half; pair += THREADS) {
        const int head = pair / half, i = pair % half;
        const float c = cosines[position * half + i], s = sines[position * half + i];
        const __half* in = x + start + head * dim;
        __half* out = y + start + head * dim;
        const float first = __half2float(in[i]), second = __half2float(in[i + half]);
        __half* place = const_cast<__half*>(in);
        place[i] = __float2half(first * c - second * s);
        place[i + half] = __float2half(second * c + first * s);
        out[i] = place[i];
        out[i + half] = place[i + half];
    }
}
