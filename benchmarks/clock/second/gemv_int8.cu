// Rows of bytes times a vector of bytes by four-way integer dot products; a warp has one or more rows.
// sizes N=8388608 W=1024
// evo: task clock
// evo: knob WARPS in 1, 2, 4, 8
// evo: knob LOAD in 1, 4
// evo: knob ROWS in 1, 2, 4
// evo: launch gemv grid (ceil_div(N // W, WARPS * ROWS) * 4) block (WARPS * 32) shared 0
#define WARPS 1
#define LOAD 1
#define ROWS 1
extern "C" __global__ void gemv(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    const int words = W / 4, lane = threadIdx.x % 32;  // bytes of a row are N / W of 256 words
    const int row0 = (blockIdx.x * WARPS + threadIdx.x / 32) * ROWS;
    if (row0 + ROWS > N / words) return;
    int sum[ROWS] = {};
#if LOAD == 4
    const int4* v = (const int4*)b;
    for (int c = lane; c < words / 4; c += 32) {
        const int4 x = v[c];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const int4 m = ((const int4*)(idx + (row0 + r) * words))[c];
            sum[r] = __dp4a(m.x, x.x, sum[r]);
            sum[r] = __dp4a(m.y, x.y, sum[r]);
            sum[r] = __dp4a(m.z, x.z, sum[r]);
            sum[r] = __dp4a(m.w, x.w, sum[r]);
        }
    }
#else
    const int* v = (const int*)b;
    for (int c = lane; c < words; c += 32) {
        const int x = v[c];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) sum[r] = __dp4a(idx[(row0 + r) * words + c], x, sum[r]);
    }
#endif
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int whole = __reduce_add_sync(0xffffffffu, sum[r]);
        if (lane == r) out[row0 + r] = whole * 0.01f;
    }
}
