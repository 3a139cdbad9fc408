// Each element has a kind, and each kind its own arithmetic; kinds alternate by lane, by warp or at random.
// sizes N=4194304 W=1
// evo: task clock
// evo: knob KINDS in 1, 2, 4, 8
// evo: knob BY in 0, 1, 2
// evo: knob THREADS in 64, 256
// evo: launch kinds grid (N // THREADS) block (THREADS) shared 0
#define KINDS 1
#define BY 0
#define THREADS 64
extern "C" __global__ void kinds(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    const int kind = (BY == 0 ? i : BY == 1 ? i / 32 : idx[i]) % KINDS;
    float x = a[i], r;
    switch (kind) {
        case 0: r = sinf(x) * cosf(x); break;
        case 1: r = logf(x + 1.5f); break;
        case 2: r = powf(x + 0.5f, 2.7f); break;
        case 3: r = x; for (int k = 0; k < 40; ++k) r = r * x + 0.5f; break;
        case 4: r = rsqrtf(x + 1.0f) + b[i]; break;
        case 5: r = atanf(x); break;
        case 6: r = erff(x); break;
        default: r = cbrtf(x + 0.1f);
    }
    out[i] = r;
}
