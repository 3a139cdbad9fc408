// evo: task once
// evo: launch waves grid (ceil_div(N, 128)) block (128) shared 0
extern "C" __global__ void waves(const float* x, float* y, int N, int R) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    float s = 0.0f;
    float kept_2[8];
    #pragma unroll
    for (int j = 0; j < 8; j++) kept_2[j] = cosf((j + 1) * (float)n / N);
    for (int r = 0; r < R; r++) {
        const float kept = expf(-0.125f * r);
        #pragma unroll
        for (int j = 0; j < 8; j++) {
            s += x[r * 8 + j] * kept * kept_2[j];
        }
    }
    y[n] = s;
}
