// A histogram in shared memory with several copies, which are added up at the end; the data may be skewed.
// sizes N=2097152 W=1
// evo: task clock_zero
// evo: knob BINS in 32, 256, 1024
// evo: knob COPIES in 1, 2, 8
// evo: knob THREADS in 128, 256, 512
// evo: knob GRID in 132, 528
// evo: knob SKEW in 0, 1
// evo: launch count grid (GRID) block (THREADS) shared (4 * BINS * COPIES)
#define BINS 32
#define COPIES 1
#define THREADS 128
#define GRID 132
#define SKEW 0
extern __shared__ int table[];
extern "C" __global__ void count(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    for (int i = threadIdx.x; i < BINS * COPIES; i += THREADS) table[i] = 0;
    __syncthreads();
    int* mine = table + (threadIdx.x / 32 % COPIES) * BINS;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < N; i += GRID * THREADS) {
        const float v = a[i];
        const int bin = (int)((SKEW ? v * v * v * v : v) * BINS);
        atomicAdd(&mine[bin], 1);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BINS; i += THREADS) {
        int sum = 0;
        for (int c = 0; c < COPIES; ++c) sum += table[c * BINS + i];
        atomicAdd((int*)out + i, sum);
    }
}
