// evo: task   zeros_in
// evo: launch zeros_in grid (M) block (128)
extern "C" __global__ void zeros_in(const signed char* x, int* y, int M, int N) {
    if (threadIdx.x) return; int n = 0; for (int j = 0; j < N; ++j) { int v = x[(long long)blockIdx.x * N + j]; n += ((v & 127) == 0); } y[blockIdx.x] = n;
}
