// evo: task tile_rows
// evo: knob Y_ROWS in 2, 4, 8
// evo: launch box grid (ceil_div(W, 16), ceil_div(H, 16 * Y_ROWS)) block (16, 16) shared 0
#define R 3
#define Y_ROWS 8
extern "C" __global__ void box(const float* img, float* out, int H, int W) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ float img_tile[(16 * Y_ROWS + 6)][22];  // with a border, zero outside
    for (int e = threadIdx.y * blockDim.x + threadIdx.x; e < (16 * Y_ROWS + 6) * 22; e += blockDim.x * blockDim.y) {
        const int at0 = (blockIdx.y * Y_ROWS) * 16 - 3 + e / 22;
        const int at1 = blockIdx.x * 16 - 3 + e % 22;
        img_tile[e / 22][e % 22] = at0 >= 0 && at0 < H && at1 >= 0 && at1 < W ? img[at0 * W + at1] : float(0);
    }
    __syncthreads();
#pragma unroll
    for (int row_of = 0; row_of < Y_ROWS; ++row_of) {
        int y = (blockIdx.y * 16 + threadIdx.y) * Y_ROWS + row_of;
        float acc = 0.0f;
#pragma unroll
        for (int dy = -R; dy <= R; dy++)
            for (int dx = -R; dx <= R; dx++) {
                acc += img_tile[dy + (threadIdx.y * Y_ROWS + row_of) + 3][dx + threadIdx.x + 3];
            }
        if (x < W && y < H) out[y * W + x] = acc / ((2 * R + 1) * (2 * R + 1));
    }
}
