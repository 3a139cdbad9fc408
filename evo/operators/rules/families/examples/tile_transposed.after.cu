// evo: task tile_transposed
// evo: knob TILE_ROWS in 4, 8, 16
// evo: launch turn grid (ceil_div(W, 32), ceil_div(H, 32), B) block (32, TILE_ROWS) shared 0
#define TILE_ROWS 8
extern "C" __global__ void turn(const float* x, float* y, int B, int H, int W) {
    // Reads and writes both go along rows; the tile is read by columns, a word of padding apart.
    __shared__ float tile[32][32 + 1];
    const int at0 = blockIdx.z;
    for (int i = threadIdx.y; i < 32; i += TILE_ROWS) {
        const int in = blockIdx.x * 32 + threadIdx.x, out = blockIdx.y * 32 + i;
        if (in < W && out < H) tile[i][threadIdx.x] = x[(at0 * H + out) * W + in];
    }
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += TILE_ROWS) {
        const int in = blockIdx.x * 32 + i, out = blockIdx.y * 32 + threadIdx.x;
        if (in < W && out < H) y[(at0 * W + in) * H + out] = 2.0f * tile[threadIdx.x][i];
    }
}
