// evo: task mean_filter
// evo: launch box grid (ceil_div(W, 64), ceil_div(H, 32)) block (64, 4) shared 0
extern "C" __global__ void box(const float* __restrict__ img, float* __restrict__ out, int H, int W) {
    __shared__ float tile[38][70], sums[38][64];
    const int x0 = blockIdx.x * 64, y0 = blockIdx.y * 32;
    for (int r = threadIdx.y; r < 38; r += 4)
        for (int c = threadIdx.x; c < 70; c += 64) {
            const int y = y0 + r - 3, x = x0 + c - 3;
            tile[r][c] = y >= 0 && y < H && x >= 0 && x < W ? img[y * W + x] : 0;
        }
    __syncthreads();
    for (int r = threadIdx.y; r < 38; r += 4) {
        float sum = 0;
        #pragma unroll
        for (int d = 0; d < 7; ++d) sum += tile[r][threadIdx.x + d];
        sums[r][threadIdx.x] = sum;
    }
    __syncthreads();
    const int x = x0 + threadIdx.x;
    if (x >= W) return;
    for (int r = threadIdx.y * 8; r < threadIdx.y * 8 + 8 && y0 + r < H; ++r) {
        float sum = 0;
        #pragma unroll
        for (int d = 0; d < 7; ++d) sum += sums[r + d][threadIdx.x];
        out[(y0 + r) * W + x] = sum * (1.0f / 49.0f);
    }
}
