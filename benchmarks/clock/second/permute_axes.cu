// Axes of a tensor of 256 x 32 x 512 x 2 in another order; places are found by division.
// sizes N=8388608 W=1
// evo: task clock
// evo: knob ORDER in 0, 1, 2, 3
// evo: knob THREADS in 64, 256, 1024
// evo: knob EACH in 1, 2, 4
// evo: launch permute grid (N // (THREADS * EACH)) block (THREADS) shared 0
#define ORDER 0
#define THREADS 64
#define EACH 1
extern "C" __global__ void permute(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    for (int e = 0; e < EACH; ++e) {
        const int o = (blockIdx.x * EACH + e) * THREADS + threadIdx.x;
#if ORDER == 0  // 256, 512, 32, 2
        const int d = o % 2, k = o / 2 % 32, m = o / 64 % 512, p = o / 32768;
        const int from = ((p * 32 + k) * 512 + m) * 2 + d;
#elif ORDER == 1  // 2, 256, 32, 512
        const int m = o % 512, k = o / 512 % 32, p = o / 16384 % 256, d = o / 4194304;
        const int from = ((p * 32 + k) * 512 + m) * 2 + d;
#elif ORDER == 2  // 512, 2, 32, 256
        const int p = o % 256, k = o / 256 % 32, d = o / 8192 % 2, m = o / 16384;
        const int from = ((p * 32 + k) * 512 + m) * 2 + d;
#else  // 32, 256, 512, 2
        const int d = o % 2, m = o / 2 % 512, p = o / 1024 % 256, k = o / 262144;
        const int from = ((p * 32 + k) * 512 + m) * 2 + d;
#endif
        out[o] = a[from];
    }
}
