// Fourier transforms of 4, 8 or 16 points in the registers of a thread, with a bound on how many it may have.
// sizes N=8388608 W=1
// evo: task clock
// evo: knob POINTS in 4, 8, 16
// evo: knob THREADS in 64, 128, 256
// evo: knob BLOCKS in 1, 4, 8
// evo: knob REPEAT in 1, 4
// evo: require THREADS * BLOCKS <= 1024
// evo: launch fft grid (N // 2 // POINTS // THREADS) block (THREADS) shared 0
#define POINTS 4
#define THREADS 64
#define BLOCKS 1
#define REPEAT 1
template <int COUNT>
__device__ __forceinline__ void transform(float2* v) {
    if constexpr (COUNT > 1) {
        float2 even[COUNT / 2], odd[COUNT / 2];
#pragma unroll
        for (int k = 0; k < COUNT / 2; ++k) even[k] = v[2 * k], odd[k] = v[2 * k + 1];
        transform<COUNT / 2>(even);
        transform<COUNT / 2>(odd);
#pragma unroll
        for (int k = 0; k < COUNT / 2; ++k) {
            const float c = cospif(2.0f * k / COUNT), s = -sinpif(2.0f * k / COUNT);
            const float2 t = make_float2(c * odd[k].x - s * odd[k].y, c * odd[k].y + s * odd[k].x);
            v[k] = make_float2(even[k].x + t.x, even[k].y + t.y);
            v[k + COUNT / 2] = make_float2(even[k].x - t.x, even[k].y - t.y);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) fft(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    const int all = N / 2 / POINTS, me = blockIdx.x * THREADS + threadIdx.x;
    float2 v[POINTS];
#pragma unroll
    for (int k = 0; k < POINTS; ++k) v[k] = ((const float2*)a)[k * all + me];
#pragma unroll 1
    for (int r = 0; r < REPEAT; ++r) transform<POINTS>(v);
#pragma unroll
    for (int k = 0; k < POINTS; ++k) ((float2*)out)[k * all + me] = v[k];
}
