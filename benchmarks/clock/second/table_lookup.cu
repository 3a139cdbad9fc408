// Interpolation in a table that each block copies to shared memory: its size decides how many blocks an SM holds.
// sizes N=2097152 W=1
// evo: task clock
// evo: knob ENTRIES in 256, 2048, 8192, 16384, 32768
// evo: knob THREADS in 128, 256, 512
// evo: knob GRID in 132, 264, 528
// evo: launch lookup grid (GRID) block (THREADS) shared (4 * ENTRIES)
#define ENTRIES 256
#define THREADS 128
#define GRID 132
extern "C" __global__ void lookup(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    extern __shared__ float entry[];
    for (int i = threadIdx.x; i < ENTRIES; i += THREADS) entry[i] = b[i];
    __syncthreads();
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < N; i += GRID * THREADS) {
        const float at = a[i] * (ENTRIES - 1.001f), left = floorf(at);
        const int k = (int)left;
        out[i] = entry[k] + (entry[k + 1] - entry[k]) * (at - left);
    }
}
