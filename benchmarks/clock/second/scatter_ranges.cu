// Values go to random places within a range: the writes of a warp fall into many sectors.
// sizes N=4194304 W=1
// evo: task clock
// evo: knob RANGE in 32, 1024, 65536, 1048576
// evo: knob THREADS in 64, 256, 1024
// evo: knob EACH in 1, 4
// evo: launch scatter grid (ceil_div(N, THREADS * EACH)) block (THREADS) shared 0
#define RANGE 32
#define THREADS 64
#define EACH 1
extern "C" __global__ void scatter(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    const int base = blockIdx.x * THREADS * EACH;
    int to[EACH];
    float what[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
        const int i = base + e * THREADS + threadIdx.x;
        to[e] = (i & ~(RANGE - 1)) | (idx[i] & (RANGE - 1));
        what[e] = a[i];
    }
#pragma unroll
    for (int e = 0; e < EACH; ++e) out[to[e]] = what[e];
}
