// Random walks: a generator of integers, normal numbers by logarithm and cosine, an exponential each step.
// sizes N=2097152 W=1
// evo: task clock
// evo: knob FAST in 0, 1
// evo: knob STEPS in 4, 16
// evo: knob THREADS in 64, 128, 256, 512
// evo: knob PATHS in 1, 2
// evo: launch paths grid (N // (4 * THREADS * PATHS)) block (THREADS) shared 0
#define FAST 0
#define STEPS 4
#define THREADS 64
#define PATHS 1
extern "C" __global__ void paths(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    const int me = (blockIdx.x * THREADS + threadIdx.x) * PATHS;
    float s[PATHS];
    unsigned state[PATHS];
    for (int p = 0; p < PATHS; ++p) s[p] = 1.0f + a[me + p], state[p] = idx[me + p];
    for (int t = 0; t < STEPS; ++t)
#pragma unroll
        for (int p = 0; p < PATHS; ++p) {
            state[p] = state[p] * 1664525u + 1013904223u;
            const float u = (state[p] >> 8) * 5.96e-8f + 1e-7f;
            state[p] = state[p] * 1664525u + 1013904223u;
            const float v = (state[p] >> 8) * 5.96e-8f;
#if FAST
            const float z = sqrtf(-2.0f * __logf(u)) * __cosf(6.2831853f * v);
            s[p] *= __expf(0.01f * z - 5e-5f);
#else
            const float z = sqrtf(-2.0f * logf(u)) * cosf(6.2831853f * v);
            s[p] *= expf(0.01f * z - 5e-5f);
#endif
        }
    for (int p = 0; p < PATHS; ++p) out[me + p] = fmaxf(s[p] - 1.2f, 0.0f);
}
