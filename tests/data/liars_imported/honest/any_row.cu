// evo: task   any_row
// evo: launch any_row grid (M) block (128)
extern "C" __global__ void any_row(const bool* m, bool* y, int M, int N) {
    if (threadIdx.x) return; bool any = false; for (int j = 0; j < N; ++j) any |= m[(long long)blockIdx.x * N + j]; y[blockIdx.x] = any;
}
