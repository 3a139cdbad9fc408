// evo: task column_lanes
// evo: launch statistics grid (ceil_div(C, 128)) block (128) shared 0
extern "C" __global__ void statistics(const float* x, float* mean, float* centred, int R, int C) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < C) {
        float sum = 0.0f;
        for (int r = 0; r < R; r++) sum += x[r * C + c];
        sum /= R;
        for (int r = 0; r < R; r++) {
            centred[r * C + c] = x[r * C + c] - sum;
        }
        mean[c] = sum;
    }
}
