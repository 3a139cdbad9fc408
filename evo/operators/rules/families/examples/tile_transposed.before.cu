// evo: task tile_transposed
// evo: launch turn grid (ceil_div(B * H * W, 256)) block (256) shared 0
extern "C" __global__ void turn(const float* x, float* y, int B, int H, int W) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < B * H * W) {
        int w = i % W, h = i / W % H, b = i / (W * H);
        y[(b * W + w) * H + h] = 2.0f * x[i];
    }
}
