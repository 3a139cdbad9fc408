// evo: task dilated
// evo: launch conv_dilated grid (ceil_div(N * K * H * W, 256)) block (256) shared 0
#define D 2
extern "C" __global__ void conv_dilated(const float* input, const float* weight, float* output, int N, int C, int K, int H, int W) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N * K * H * W) return;
    int w = idx % W;
    int h = (idx / W) % H;
    int k = (idx / (W * H)) % K;
    int n = idx / (W * H * K);
    float acc = 0.0f;
    for (int c = 0; c < C; ++c)
        for (int r = 0; r < 3; ++r)
            for (int s = 0; s < 3; ++s) {
                int ih = h + (r - 1) * D;
                int iw = w + (s - 1) * D;
                if (ih >= 0 && ih < H && iw >= 0 && iw < W)
                    acc += input[((n * C + c) * H + ih) * W + iw] * weight[((k * C + c) * 3 + r) * 3 + s];
            }
    output[idx] = acc;
}
