// Euclidean norms of short segments: LANES threads have one each.
// sizes N=12582912 W=96
// evo: task clock
// evo: knob LANES in 1, 2, 4, 8, 16, 32
// evo: knob THREADS in 64, 192, 512
// evo: knob AHEAD in 1, 3
// evo: launch norms grid (ceil_div(N // W * LANES, THREADS)) block (THREADS) shared 0
#define LANES 1
#define THREADS 64
#define AHEAD 1
extern "C" __global__ void norms(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    const int segments = N / W;
    const int who = (blockIdx.x * THREADS + threadIdx.x) / LANES;
    const int lane = (blockIdx.x * THREADS + threadIdx.x) % LANES;
    float squares = 0.f;
    if (who < segments) {
        const float* begin = &a[who * W];
        int j = lane;
        for (; j + (AHEAD - 1) * LANES < W; j += AHEAD * LANES) {
            float v[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) v[k] = begin[j + k * LANES];
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) squares += v[k] * v[k];
        }
        for (; j < W; j += LANES) squares += begin[j] * begin[j];
    }
#pragma unroll
    for (int d = LANES >> 1; d; d >>= 1) squares += __shfl_xor_sync(0xffffffff, squares, d);
    if (lane == 0 && who < segments) out[who] = sqrtf(squares);
}
