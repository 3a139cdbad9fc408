// evo: task recompute
// evo: launch softmax grid (ceil_div(R, 64)) block (64) shared 0
extern "C" __global__ void softmax(const float* x, float* y, int R, int C) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= R) return;
    float top = -3e38f;
    for (int i = 0; i < C; i++) top = fmaxf(top, x[i * R + c]);
    float sum = 0.0f;
    for (int i = 0; i < C; i++) {
        y[i * R + c] = expf(x[i * R + c] - top);
        sum += y[i * R + c];
    }
    for (int i = 0; i < C; i++) {
        y[i * R + c] /= sum;
    }
}
