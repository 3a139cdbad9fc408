// Searches by halving: each step waits for the load before it; several searches of a thread overlap.
// sizes N=1048576 W=1
// evo: task clock
// evo: knob DEPTH in 10, 16, 20
// evo: knob EACH in 1, 2, 4
// evo: knob THREADS in 32, 128, 512
// evo: knob TOTAL in 262144, 1048576
// evo: launch find grid (TOTAL // (THREADS * EACH)) block (THREADS) shared 0
#define DEPTH 10
#define EACH 1
#define THREADS 32
#define TOTAL 262144
extern "C" __global__ void find(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    int low[EACH];
    float key[EACH];
    const int first = blockIdx.x * THREADS * EACH + threadIdx.x;
#pragma unroll
    for (int e = 0; e < EACH; ++e) low[e] = 0, key[e] = b[first + e * THREADS];
#pragma unroll 1
    for (int half = 1 << (DEPTH - 1); half; half >>= 1)
#pragma unroll
        for (int e = 0; e < EACH; ++e)
            if (a[low[e] + half - 1] < key[e]) low[e] += half;
#pragma unroll
    for (int e = 0; e < EACH; ++e) out[first + e * THREADS] = low[e];
}
