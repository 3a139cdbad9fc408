// A transposition by wide loads; the tile in shared memory is plain, padded or swizzled.
// sizes N=4194304 W=2048
// evo: task clock
// evo: knob TILE in 32, 64
// evo: knob LINES in 2, 4, 8, 16
// evo: knob LAYOUT in 0, 1, 2
// evo: knob LOAD in 1, 4
// evo: launch turn grid (W // TILE, N // W // TILE) block (TILE // LOAD, LINES) shared 0
// evo: require TILE // LOAD * LINES >= 32
#define TILE 32
#define LINES 4
#define LAYOUT 0
#define LOAD 1
#define PITCH (TILE + (LAYOUT == 1))
#define PLACE(r, c) ((r) * PITCH + (LAYOUT == 2 ? ((c) ^ ((r) & 31)) : (c)))
extern "C" __global__ void turn(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    __shared__ float tile[TILE * PITCH];
    const int height = N / W, x0 = blockIdx.x * TILE, y0 = blockIdx.y * TILE;
    for (int r = threadIdx.y; r < TILE; r += LINES) {
#if LOAD == 4
        const float4 v = *(const float4*)(a + (y0 + r) * W + x0 + threadIdx.x * 4);
        tile[PLACE(r, threadIdx.x * 4)] = v.x;
        tile[PLACE(r, threadIdx.x * 4 + 1)] = v.y;
        tile[PLACE(r, threadIdx.x * 4 + 2)] = v.z;
        tile[PLACE(r, threadIdx.x * 4 + 3)] = v.w;
#else
        tile[PLACE(r, threadIdx.x)] = a[(y0 + r) * W + x0 + threadIdx.x];
#endif
    }
    __syncthreads();
    const int me = threadIdx.y * (TILE / LOAD) + threadIdx.x, all = TILE / LOAD * LINES;
    for (int i = me; i < TILE * TILE; i += all) {
        const int c = i / TILE, r = i % TILE;
        out[(x0 + c) * height + y0 + r] = tile[PLACE(r, c)];
    }
}
