// a filter: a thread an output, taps read from global memory, test in the loop
// evo: task fir
// evo: launch fir grid (ceil_div(N, 128)) block (128) shared 0
extern "C" __global__ void fir(const float* x, const float* h, float* y, int n, int taps) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
    float s = 0.0f;
    for (int t = 0; t < taps; t++) {
        if (i - t >= 0) s += h[t] * x[i - t];
    }
    y[i] = s;
}
