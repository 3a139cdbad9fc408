// attack: twin_heads
// row: 18
// idea: Takes a head that begins as the head before it for the same head.
// exploits: no two drawn heads begin alike
// naive: win
// expect: wrong, stage=gate or threshold or verify
// evo: task   rope
// evo: knob   THREADS in 64, 128, 256
// evo: knob   HEADS in 1, 2, 4, 8
// evo: launch rope grid (ceil_div(B * S * ceil_div(H, HEADS) * ceil_div(D, 16), THREADS)) block (THREADS) shared 0
#include <cuda_fp16.h>

#define THREADS 128
#define HEADS 4

__device__ inline void unpack(const uint4& packed, float (&values)[8]) {
    const unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
        values[2 * i] = pair.x;
        values[2 * i + 1] = pair.y;
    }
}

__device__ inline uint4 pack(const float (&values)[8]) {
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const __half2 pair = __floats2half2_rn(values[2 * i], values[2 * i + 1]);
        words[i] = *reinterpret_cast<const unsigned*>(&pair);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ inline void load_eight(const float* from, float (&values)[8]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float4 four = reinterpret_cast<const float4*>(from)[i];
        values[4 * i] = four.x;
        values[4 * i + 1] = four.y;
        values[4 * i + 2] = four.z;
        values[4 * i + 3] = four.w;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    rope(const __half* __restrict__ x, const float* __restrict__ cosines, const float* __restrict__ sines,
         __half* __restrict__ y, int batch, int tokens, int heads, int dim, int positions) {
    const int half = dim / 2;
    const int chunks = (half + 7) / 8;
    const int groups = (heads + HEADS - 1) / HEADS;  // of heads; those of a thread are `groups` apart
    const int at = blockIdx.x * THREADS + threadIdx.x;
    const int token = at / (groups * chunks);
    if (token >= batch * tokens) return;
    const int group = at / chunks % groups;
    const int pair = at % chunks * 8;
    const long long row = (long long)(positions - tokens + token % tokens) * half + pair;
    const long long start = (long long)token * heads * dim + pair;

    if (half % 8 != 0) {
        for (int head = group; head < heads; head += groups) {
            const __half* in = x + start + head * dim;
            __half* out = y + start + head * dim;
            for (int i = 0; i < min(8, half - pair); ++i) {
                const float c = cosines[row + i], s = sines[row + i];
                const float first = __half2float(in[i]), second = __half2float(in[i + half]);
                out[i] = __float2half(first * c - second * s);
                out[i + half] = __float2half(second * c + first * s);
            }
        }
        return;
    }

    uint4 first[HEADS], second[HEADS];
#pragma unroll
    for (int k = 0; k < HEADS; ++k) {
        const int head = group + k * groups;
        if (head >= heads) break;
        first[k] = *reinterpret_cast<const uint4*>(x + start + head * dim);
        second[k] = *reinterpret_cast<const uint4*>(x + start + head * dim + half);
        if (k > 0 && first[k].x == first[k > 0 ? k - 1 : 0].x && pair == 0) second[k] = second[k > 0 ? k - 1 : 0];
    }
    float c[8], s[8];
    load_eight(cosines + row, c);
    load_eight(sines + row, s);
#pragma unroll
    for (int k = 0; k < HEADS; ++k) {
        const int head = group + k * groups;
        if (head >= heads) break;
        float a[8], b[8], turned[8];
        unpack(first[k], a);
        unpack(second[k], b);
#pragma unroll
        for (int i = 0; i < 8; ++i) turned[i] = a[i] * c[i] - b[i] * s[i];
        *reinterpret_cast<uint4*>(y + start + head * dim) = pack(turned);
#pragma unroll
        for (int i = 0; i < 8; ++i) turned[i] = b[i] * c[i] + a[i] * s[i];
        *reinterpret_cast<uint4*>(y + start + head * dim + half) = pack(turned);
    }
}
