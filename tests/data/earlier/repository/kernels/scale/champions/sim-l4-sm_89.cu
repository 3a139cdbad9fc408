// One thread per element: neighbours read neighbours.
// evo: task   scale
// evo: knob   THREADS in 32, 64, 128
// evo: launch scale grid (ceil_div(N, THREADS * 1)) block (THREADS) shared 0
#define THREADS 128

extern "C" __global__ void scale(const float* x, float* y, int n) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
