// Rounds of an integer mixer over several words at a time: multiplications, shifts, rotations.
// sizes N=4194304 W=1
// evo: task clock
// evo: knob ROUNDS in 4, 16
// evo: knob WORDS in 1, 2, 4
// evo: knob THREADS in 64, 256, 512
// evo: knob MIX in 0, 1
// evo: launch hash grid (N // (WORDS * THREADS)) block (THREADS) shared 0
#define ROUNDS 4
#define WORDS 1
#define THREADS 64
#define MIX 0
__device__ unsigned mix(unsigned h, unsigned k) {
#if MIX
    h ^= k;
    h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
#else
    h += k;
    h = (h << 7 | h >> 25) ^ (h + 0x9e3779b9u);
    h = (h << 13 | h >> 19) + (h & ~k);
#endif
    return h;
}

extern "C" __global__ void hash(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    unsigned h[WORDS];
#pragma unroll
    for (int k = 0; k < WORDS; k++) h[k] = idx[(blockIdx.x * WORDS + k) * THREADS + threadIdx.x];
    for (int r = 0; r < ROUNDS; r++)
#pragma unroll
        for (int k = 0; k < WORDS; k++) h[k] = mix(h[k], r * 0x01000193u + k);
#pragma unroll
    for (int k = 0; k < WORDS; k++) out[(blockIdx.x * WORDS + k) * THREADS + threadIdx.x] = __uint_as_float(h[k] >> 9);
}
