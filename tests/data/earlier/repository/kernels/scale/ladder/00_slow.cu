// One thread, sixteen elements, one after the other.
// evo: task   scale
// evo: knob   THREADS in 32, 64, 128
// evo: launch scale grid (ceil_div(N, THREADS * 16)) block (THREADS) shared 0
#define THREADS 32

extern "C" __global__ void scale(const float* x, float* y, int n) {
    const int first = (blockIdx.x * THREADS + threadIdx.x) * 16;
    for (int i = first; i < first + 16 && i < n; ++i) y[i] = 2.0f * x[i];
}
