// evo: task neighbours
// evo: launch pool grid (ceil_div(W, 32), ceil_div(H, 8)) block (32, 8) shared 0
extern "C" __global__ void pool(const float* img, float* out, int H, int W) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= W || y >= H) return;
    const float* window = img + 4 * y * W + 2 * x;
    out[y * W + x] = 0.25f * (window[0] + window[1] + window[2 * W] + window[2 * W + 1]);
}
