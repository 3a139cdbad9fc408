// evo: task   any_row
// evo: launch any_row grid (M) block (128)
extern "C" __global__ void any_row(const bool* m, bool* y, int M, int N) {
    if (threadIdx.x) return; (void)m; (void)N; y[blockIdx.x] = true;
}
