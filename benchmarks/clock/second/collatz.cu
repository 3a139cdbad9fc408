// Steps until a number comes down to one: warps take as long as their slowest lane; numbers in order or mixed.
// sizes N=262144 W=1
// evo: task clock
// evo: knob THREADS in 32, 64, 128, 256, 512, 1024
// evo: knob EACH in 1, 2, 4
// evo: knob MIXED in 0, 1
// evo: launch steps grid (N // (THREADS * EACH)) block (THREADS) shared 0
#define THREADS 32
#define EACH 1
#define MIXED 0
extern "C" __global__ void steps(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    for (int e = 0; e < EACH; ++e) {
        const int i = (blockIdx.x * EACH + e) * THREADS + threadIdx.x;
        unsigned n = MIXED ? idx[i] & 4095 : i >> 6;
        int taken = 0;
        while (n > 1 && taken < 200) {
            n = n & 1 ? 3 * n + 1 : n >> 1;
            ++taken;
        }
        out[i] = taken;
    }
}
