// evo: task unflatten
// evo: launch dw grid (ceil_div(C * H * W, 256)) block (256) shared 0
extern "C" __global__ void dw(const float* x, const float* w, float* y, int C, int H, int W) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < C * H * W) {
        const int j = index % W;
        const int i = (index / W) % H;
        const int c = index / W / H;
        float value = 0;
        for (int kh = 0; kh < 3; ++kh) {
            for (int kw = 0; kw < 3; ++kw) {
                const int h = -1 + i + kh, v = -1 + j + kw;
                if ((h >= 0) && (h < H) && (v >= 0) && (v < W)) {
                    value += w[(c * 3 + kh) * 3 + kw] * x[(c * H + h) * W + v];
                }
            }
        }
        y[index] = value;
    }
}
