// evo: task argmax_rows
// evo: launch argmax grid (ceil_div(N, 256)) block (256) shared 0
extern "C" __global__ void argmax(const float* x, int* idx, int N, int C) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < N) {
        float best = x[n * C];
        int at = 0;
        for (int c = 0; c < C; c++) {
            float v = x[n * C + c];
            if (v > best) { best = v; at = c; }
        }
        idx[n] = at;
    }
}
