// evo: task block_shape
// evo: launch box grid (ceil_div(W, 16), ceil_div(H, 16)) block (16, 16) shared 0
#define R 3
extern "C" __global__ void box(const float* img, float* out, int H, int W) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= W || y >= H) return;
    float acc = 0.0f;
    for (int dy = -R; dy <= R; dy++)
        for (int dx = -R; dx <= R; dx++) {
            int yy = y + dy, xx = x + dx;
            if (yy >= 0 && yy < H && xx >= 0 && xx < W) acc += img[yy * W + xx];
        }
    out[y * W + x] = acc / ((2 * R + 1) * (2 * R + 1));
}
