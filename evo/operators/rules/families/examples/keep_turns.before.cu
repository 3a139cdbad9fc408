// evo: task keep_turns
// evo: macro C
// evo: launch soft grid (ceil_div(P, 128), N) block (128) shared 0
extern "C" __global__ void soft(const float* x, float* y, int N, int, int P) {
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= P) return;
    int first = blockIdx.y * C * P + p;
    float top = -INFINITY, sum = 0.0f;
    for (int c = 0; c < C; ++c) top = fmaxf(top, x[first + c * P]);
    for (int c = 0; c < C; ++c) {
        float e = expf(x[first + c * P] - top);
        y[first + c * P] = e;
        sum += e;
    }
    for (int c = 0; c < C; ++c) y[first + c * P] /= sum;
}
