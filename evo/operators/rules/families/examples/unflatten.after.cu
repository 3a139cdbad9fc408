// evo: task unflatten
// evo: launch dw grid (ceil_div(W, 32), ceil_div(H, 8), C) block (32, 8) shared 0
extern "C" __global__ void dw(const float* x, const float* w, float* y, int C, int H, int W) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    const int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (j >= W || i >= H) return;
    const int c = blockIdx.z;
    int index = (c * H + i) * W + j;
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
