// evo: task depthwise_conv
// evo: launch dw grid (ceil_div(W, 32), ceil_div(H, 32), C) block (32, 8) shared 0
extern "C" __global__ void dw(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int C, int H, int W) {
    float k[9];
    #pragma unroll
    for (int e = 0; e < 9; ++e) k[e] = w[blockIdx.z * 9 + e];
    x += (long)blockIdx.z * H * W;
    y += (long)blockIdx.z * H * W;
    const int j = blockIdx.x * 32 + threadIdx.x;
    int i = blockIdx.y * 32 + threadIdx.y * 4;
    if (j >= W) return;
    float rows[3][3];
    #pragma unroll
    for (int r = 0; r < 2; ++r)
        #pragma unroll
        for (int c = 0; c < 3; ++c) {
            const int at = i - 1 + r, across = j - 1 + c;
            rows[r][c] = at >= 0 && at < H && across >= 0 && across < W ? x[at * W + across] : 0;
        }
    #pragma unroll
    for (int n = 0; n < 4; ++n, ++i) {
        if (i >= H) return;
        float sum = 0;
        #pragma unroll
        for (int c = 0; c < 3; ++c) {
            const int across = j - 1 + c;
            rows[2][c] = i + 1 < H && across >= 0 && across < W ? x[(i + 1) * W + across] : 0;
            sum += k[c] * rows[0][c] + k[3 + c] * rows[1][c] + k[6 + c] * rows[2][c];
            rows[0][c] = rows[1][c];
            rows[1][c] = rows[2][c];
        }
        y[i * W + j] = sum;
    }
}
