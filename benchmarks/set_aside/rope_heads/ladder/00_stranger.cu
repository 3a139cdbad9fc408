// evo: task rope_heads
// evo: launch rope_kernel grid (T) block (H) shared 0
// one block per token, one thread per head
extern "C" __global__ void rope_kernel(const float* x, float* y, int T, int H, int D) {
    int t = blockIdx.x;
    int h = threadIdx.x;
    const float* in = x + (t * H + h) * D;
    float* out = y + (t * H + h) * D;
    for (int i = 0; i < D / 2; i++) {
        float freq = 1.0f / powf(10000.0f, 2.0f * i / D);
        float angle = t * freq;
        float c = cosf(angle), s = sinf(angle);
        float a = in[2 * i], b = in[2 * i + 1];
        out[2 * i] = a * c - b * s;
        out[2 * i + 1] = a * s + b * c;
    }
}
