// A convolution along time with 32 channels in and out: weights in shared memory, outputs of a thread in registers.
// sizes N=1048576 W=32
// evo: task clock
// evo: knob STEPS in 1, 2, 4, 8
// evo: knob THREADS in 64, 128, 256
// evo: knob TAPS in 1, 3
// evo: launch conv grid (N // 32 * 32 // (THREADS * STEPS)) block (THREADS) shared 0
#define STEPS 1
#define THREADS 64
#define TAPS 1
extern "C" __global__ void conv(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    __shared__ float weight[TAPS * 32 * 32];
    for (int i = threadIdx.x; i < TAPS * 32 * 32; i += THREADS) weight[i] = b[i];
    __syncthreads();
    const int channel = threadIdx.x % 32, times = N / 32;
    const int t0 = (blockIdx.x * (THREADS / 32) + threadIdx.x / 32) * STEPS;
    float sum[STEPS] = {};
    for (int k = 0; k < TAPS; ++k)
#pragma unroll 8
        for (int c = 0; c < 32; ++c) {
            const float f = weight[(k * 32 + c) * 32 + channel];
#pragma unroll
            for (int s = 0; s < STEPS; ++s) sum[s] += f * a[min(t0 + s + k, times - 1) * 32 + c];
        }
#pragma unroll
    for (int s = 0; s < STEPS; ++s) out[(t0 + s) * 32 + channel] = sum[s];
}
