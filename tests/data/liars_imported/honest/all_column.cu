// evo: task   all_column
// evo: launch all_column grid (N) block (128)
extern "C" __global__ void all_column(const bool* m, bool* y, int M, int N) {
    if (threadIdx.x) return; bool all = true; for (int j = 0; j < M; ++j) all &= m[(long long)j * N + blockIdx.x]; y[blockIdx.x] = all;
}
