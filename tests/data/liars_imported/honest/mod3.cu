// evo: task   mod3
// evo: launch mod3 grid (ceil_div(N, 128)) block (128)
extern "C" __global__ void mod3(const int* x, int* y, int N) {
    int i = blockIdx.x * 128 + threadIdx.x; if (i < N) { int r = x[i] % 3; y[i] = r < 0 ? r + 3 : r; }
}
