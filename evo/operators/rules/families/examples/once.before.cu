// evo: task once
// evo: launch waves grid (ceil_div(N, 128)) block (128) shared 0
extern "C" __global__ void waves(const float* x, float* y, int N, int R) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    float s = 0.0f;
    for (int r = 0; r < R; r++) {
        for (int j = 0; j < 8; j++) {
            s += x[r * 8 + j] * expf(-0.125f * r) * cosf((j + 1) * (float)n / N);
        }
    }
    y[n] = s;
}
