// evo: task keep_turns
// evo: macro C
// evo: launch soft grid (ceil_div(P, 128), N) block (128) shared 0
extern "C" __global__ void soft(const float* x, float* y, int N, int, int P) {
    float x_kept[C];
    float y_kept[C];
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= P) return;
    int first = blockIdx.y * C * P + p;
    float top = -INFINITY, sum = 0.0f;
    #pragma unroll
    for (int c = 0; c < C; ++c) {
        x_kept[c] = x[first + c * P];
        top = fmaxf(top, x_kept[c]);
    }
    #pragma unroll
    for (int c = 0; c < C; ++c) {
        float e = expf(x_kept[c] - top);
        y_kept[c] = e;
        sum += e;
    }
    #pragma unroll
    for (int c = 0; c < C; ++c) {
        y[first + c * P] = y_kept[c] / sum;
    }
}
