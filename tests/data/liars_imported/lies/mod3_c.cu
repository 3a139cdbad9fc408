// evo: task   mod3
// evo: launch mod3 grid (ceil_div(N, 128)) block (128)
extern "C" __global__ void mod3(const int* x, int* y, int N) {
    int i = blockIdx.x * 128 + threadIdx.x; if (i < N) y[i] = x[i] % 3;
}
