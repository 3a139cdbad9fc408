// Short runs sorted by neighbours that swap: within a warp by shuffles, or by a block in shared memory.
// sizes N=1048576 W=1
// evo: task clock
// evo: knob THREADS in 64, 128, 256, 512
// evo: knob WAY in 0, 1
// evo: knob PHASES in 16, 32
// evo: launch sort grid (N // THREADS) block (THREADS) shared 0
#define THREADS 64
#define WAY 0
#define PHASES 16
extern "C" __global__ void sort(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    const int i = blockIdx.x * THREADS + threadIdx.x, t = threadIdx.x;
    float v = a[i];
#if WAY
    __shared__ float run[THREADS];
    run[t] = v;
    __syncthreads();
    for (int phase = 0; phase < PHASES; ++phase) {
        const int left = 2 * t + (phase & 1);
        if (left + 1 < THREADS && run[left] > run[left + 1]) {
            const float kept = run[left];
            run[left] = run[left + 1];
            run[left + 1] = kept;
        }
        __syncthreads();
    }
    v = run[t];
#else
    const int lane = t & 31;
    for (int phase = 0; phase < PHASES; ++phase) {
        const bool lower = (lane & 1) == (phase & 1);
        const int partner = lower ? lane + 1 : lane - 1;
        const float other = __shfl_sync(~0u, v, partner & 31);
        if (partner >= 0 && partner < 32) v = lower ? fminf(v, other) : fmaxf(v, other);
    }
#endif
    out[i] = v;
}
