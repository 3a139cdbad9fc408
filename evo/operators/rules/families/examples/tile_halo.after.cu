// evo: task tile_halo
// evo: launch box grid (ceil_div(W, 16), ceil_div(H, 16)) block (16, 16) shared 0
#define R 3
extern "C" __global__ void box(const float* img, float* out, int H, int W) {
    __shared__ float img_tile[22][22];  // with a border, zero outside
    for (int e = threadIdx.y * blockDim.x + threadIdx.x; e < 22 * 22; e += blockDim.x * blockDim.y) {
        const int at0 = blockIdx.y * 16 - 3 + e / 22;
        const int at1 = blockIdx.x * 16 - 3 + e % 22;
        img_tile[e / 22][e % 22] = at0 >= 0 && at0 < H && at1 >= 0 && at1 < W ? img[at0 * W + at1] : float(0);
    }
    __syncthreads();
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= W || y >= H) return;
    float acc = 0.0f;
    for (int dy = -R; dy <= R; dy++)
        for (int dx = -R; dx <= R; dx++) {
            acc += img_tile[dy + threadIdx.y + 3][dx + threadIdx.x + 3];
        }
    out[y * W + x] = acc / ((2 * R + 1) * (2 * R + 1));
}
