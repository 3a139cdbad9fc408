// evo: task best_in_memory
// evo: launch argmax grid (ceil_div(N, 256)) block (256) shared 0
extern "C" __global__ void argmax(const float* x, float* top, int* idx, int N, int C) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    idx[n] = 0;
    top[n] = x[n * C];
    for (int c = 1; c < C; c++)
        if (x[n * C + c] > top[n]) { top[n] = x[n * C + c]; idx[n] = c; }
}
