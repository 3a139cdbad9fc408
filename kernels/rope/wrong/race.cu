// expect: unsafe, fault=race
// Stages a token's row of the tables in shared memory and does not wait until it is there.
// evo: task   rope
// evo: knob   THREADS in 32, 64, 128, 256
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: launch rope grid (S, B) block (THREADS) shared (D * 4)
#include <cuda_fp16.h>

#define THREADS 128
#define UNROLL 1

extern "C" __global__ void rope(const __half* x, const float* cosines, const float* sines, __half* y, int batch,
                                int tokens, int heads, int dim, int positions) {
    extern __shared__ float row[];
    const int half = dim / 2;
    const long long position = positions - tokens + blockIdx.x;
    const long long start = ((long long)blockIdx.y * tokens + blockIdx.x) * heads * dim;
    for (int i = threadIdx.x; i < half; i += THREADS) {
        row[i] = cosines[position * half + i];
        row[i + half] = sines[position * half + i];
    }

#pragma unroll UNROLL
    for (int pair = threadIdx.x; pair < heads * half; pair += THREADS) {
        const int head = pair / half, i = pair % half;
        const float c = row[(i + 32) % half], s = row[(i + 32) % half + half];
        const __half* in = x + start + head * dim;
        __half* out = y + start + head * dim;
        const float first = __half2float(in[i]), second = __half2float(in[i + half]);
        out[i] = __float2half(first * c - second * s);
        out[i + half] = __float2half(second * c + first * s);
    }
}
