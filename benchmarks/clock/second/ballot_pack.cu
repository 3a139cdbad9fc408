// Comparisons packed to bits by votes, and their counts; a warp has several words.
// sizes N=8388608 W=1
// evo: task clock
// evo: knob THREADS in 64, 128, 256, 1024
// evo: knob WORDS in 1, 2, 8, 32
// evo: launch pack grid (N // (THREADS * WORDS)) block (THREADS) shared 0
#define THREADS 64
#define WORDS 1
extern "C" __global__ void pack(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    const int lane = threadIdx.x & 31, warp = (blockIdx.x * THREADS + threadIdx.x) >> 5;
    unsigned mine = 0, ones = 0;
#pragma unroll
    for (int k = 0; k < WORDS; ++k) {
        const float v = a[(warp * WORDS + k) * 32 + lane];
        const unsigned bits = __ballot_sync(0xffffffffu, v > 0.25f);
        if (lane == k) mine = bits;
        ones += __popc(bits);
    }
    if (lane < WORDS) ((unsigned*)out)[warp * WORDS + lane] = mine;
    if (lane == 0) ((unsigned*)out)[N / 32 + warp] = ones;
}
