// Polynomials in double precision beside single precision ones.
// sizes N=2097152 W=1
// evo: task clock
// evo: knob DEGREE in 8, 24
// evo: knob DOUBLES in 0, 1, 2
// evo: knob THREADS in 64, 256, 1024
// evo: knob EACH in 1, 2
// evo: launch horner grid (N // (THREADS * EACH)) block (THREADS) shared 0
#define DEGREE 8
#define DOUBLES 0
#define THREADS 64
#define EACH 1
extern "C" __global__ void horner(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    for (int e = 0; e < EACH; ++e) {
        const int i = (blockIdx.x * EACH + e) * THREADS + threadIdx.x;
        const float x = a[i];
        float f = b[i];
#pragma unroll
        for (int k = 0; k < 4 * DEGREE; ++k) f = f * x + (0.5f + k);
#if DOUBLES
        double d[DOUBLES];
        for (int c = 0; c < DOUBLES; ++c) d[c] = f + c;
#pragma unroll
        for (int k = 0; k < DEGREE; ++k)
#pragma unroll
            for (int c = 0; c < DOUBLES; ++c) d[c] = d[c] * x + (0.25 + k);
        for (int c = 0; c < DOUBLES; ++c) f += (float)d[c];
#endif
        out[i] = f;
    }
}
