// 2D convolution with a 15 x 15 filter; each thread makes tile_size_x * tile_size_y points that lie a block apart
// evo: task    convolution
// evo: macro   H, W
// evo: knob    block_size_x in 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256
// evo: knob    block_size_y in 1, 2, 4, 8, 16
// evo: knob    tile_size_x in 1, 2, 3, 4
// evo: knob    tile_size_y in 1, 2, 3, 4
// evo: knob    read_only in 0, 1               loads of the image through the read-only cache
// evo: knob    use_padding in 0, 1             rows of shared memory begin where the block's row before ended
// evo: knob    use_shmem in 0, 1               the block's part of the image in shared memory
// evo: launch  convolution grid (ceil_div(W, block_size_x * tile_size_x), ceil_div(H, block_size_y * tile_size_y)) block (block_size_x, block_size_y) shared 0 args (x, y)
#define block_size_x 16
#define block_size_y 16
#define tile_size_x 1
#define tile_size_y 1
#define read_only 0
#define use_padding 1
#define use_shmem 1

constexpr int FILTER = 15;
constexpr int WIDE = block_size_x * tile_size_x, HIGH = block_size_y * tile_size_y;  // what a block makes
constexpr int ROW = W + FILTER - 1;                                                  // of the image, with its border
constexpr bool EVEN = W % WIDE == 0 && H % HIGH == 0;

__constant__ float weights[FILTER * FILTER];  // the host would fill it; time does not depend on what it holds

__device__ __forceinline__ float pixel(const float* at) {
#if read_only
    return __ldg(at);
#else
    return *at;
#endif
}

extern "C" __global__ void convolution(float* x, float* y) {
    const int left = blockIdx.x * WIDE, top = blockIdx.y * HIGH;
#if use_shmem
    constexpr int USED = WIDE + FILTER - 1, LINES = HIGH + FILTER - 1;
    constexpr int PADDED = use_padding ? USED + ((block_size_x - USED) % 32 + 32) % 32 : USED;
    __shared__ float part[LINES][PADDED];
    for (int i = threadIdx.y; i < LINES; i += block_size_y)
        for (int j = threadIdx.x; j < USED; j += block_size_x)
            part[i][j] = EVEN || (top + i < H + FILTER - 1 && left + j < ROW) ? pixel(&x[(top + i) * ROW + left + j]) : 0.0f;
    __syncthreads();
#endif
    float sum[tile_size_y][tile_size_x] = {};
#pragma unroll
    for (int i = 0; i < FILTER; ++i)
#pragma unroll
        for (int j = 0; j < FILTER; ++j)
#pragma unroll
            for (int a = 0; a < tile_size_y; ++a)
#pragma unroll
                for (int b = 0; b < tile_size_x; ++b) {
                    const int row = threadIdx.y + a * block_size_y, column = threadIdx.x + b * block_size_x;
#if use_shmem
                    sum[a][b] += part[row + i][column + j] * weights[i * FILTER + j];
#else
                    if (EVEN || (top + row < H && left + column < W))
                        sum[a][b] += pixel(&x[(top + row + i) * ROW + left + column + j]) * weights[i * FILTER + j];
#endif
                }
#pragma unroll
    for (int a = 0; a < tile_size_y; ++a)
#pragma unroll
        for (int b = 0; b < tile_size_x; ++b) {
            const int row = top + threadIdx.y + a * block_size_y, column = left + threadIdx.x + b * block_size_x;
            if (EVEN || (row < H && column < W)) y[row * W + column] = sum[a][b];
        }
}
