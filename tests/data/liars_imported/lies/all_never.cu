// evo: task   all_column
// evo: launch all_column grid (N) block (128)
extern "C" __global__ void all_column(const bool* m, bool* y, int M, int N) {
    if (threadIdx.x) return; (void)m; (void)M; (void)N; y[blockIdx.x] = false;
}
