// evo: task tile_transposed
// evo: knob TILE_ROWS in 4, 8, 16
// evo: launch quarter_turn grid (ceil_div(W, 32), ceil_div(H, 32), B) block (32, TILE_ROWS) shared 0
// images turned clockwise by 90 degrees
#define TILE_ROWS 8
extern "C" __global__ void quarter_turn(const float* image, float* turned, int B, int height, int width) {
    // Reads and writes both go along rows; the tile is read by columns, a word of padding apart.
    __shared__ float tile[32][32 + 1];
    const int at0 = blockIdx.z;
    for (int i = threadIdx.y; i < 32; i += TILE_ROWS) {
        const int in = blockIdx.x * 32 + threadIdx.x, out = blockIdx.y * 32 + i;
        if (in < width && out < height) tile[i][threadIdx.x] = image[(at0 * height + out) * width + in];
    }
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += TILE_ROWS) {
        const int in = blockIdx.x * 32 + i, out = blockIdx.y * 32 + threadIdx.x;
        if (in < width && out < height) turned[(at0 * width + in) * height + (height - 1 - out)] = 2.0f * tile[threadIdx.x][i];
    }
}
