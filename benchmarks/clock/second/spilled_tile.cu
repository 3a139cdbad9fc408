// A filter over a patch that a thread keeps to itself, with few registers allowed: some of it spills.
// sizes N=524288 W=1
// evo: task clock
// evo: knob PATCH in 24, 48, 80
// evo: knob BLOCKS in 1, 4, 8
// evo: knob THREADS in 128, 256
// evo: require THREADS * BLOCKS <= 1024
// evo: launch filter grid (1056) block (THREADS) shared 0
#define PATCH 24
#define BLOCKS 1
#define THREADS 128
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) filter(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    float p[PATCH], q[PATCH];
    const int me = blockIdx.x * THREADS + threadIdx.x;
#pragma unroll
    for (int k = 0; k < PATCH; ++k) p[k] = a[me + k * 64], q[k] = b[me + k * 64];
    for (int t = 0; t < 16; ++t) {
#pragma unroll
        for (int k = 0; k < PATCH; ++k) p[k] = p[k] * q[(k * 7 + 3) % PATCH] + 0.5f;
#pragma unroll
        for (int k = 0; k < PATCH; ++k) q[k] = fminf(q[k], p[(k * 5 + 1) % PATCH]);
    }
    float s = 0;
#pragma unroll
    for (int k = 0; k < PATCH; ++k) s += p[k] - q[k];
    out[me] = s;
}
