// evo: task   row_argmax
// evo: launch row_argmax grid (M) block (128)
extern "C" __global__ void row_argmax(const int* x, int* y, int M, int N) {
    if (threadIdx.x) return; int best = x[(long long)blockIdx.x * N]; [[maybe_unused]] int at = 0; for (int j = 0; j < N; ++j) { int v = x[(long long)blockIdx.x * N + j]; if (v > best) { best = v; at = j; } } y[blockIdx.x] = at;
}
