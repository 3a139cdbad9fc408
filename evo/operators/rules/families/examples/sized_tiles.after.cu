// evo: task sized_tiles
// evo: macro M
// evo: macro N
// evo: knob BM in 16, 32, 64
// evo: knob BN in 16, 32, 64
// evo: knob TM in 1, 2, 4, 8
// evo: knob BM_LARGE in 16, 32, 64
// evo: knob BN_LARGE in 16, 32, 64
// evo: knob TM_LARGE in 1, 2, 4, 8
// evo: knob LARGE_BLOCKS in 16, 32, 48, 64, 96, 128, 192, 256
// evo: require BM % TM == 0
// evo: require BM_LARGE % TM_LARGE == 0
// evo: launch product grid (ceil_div(N, (BN_LARGE if ceil_div(N, BN_LARGE) * ceil_div(M, BM_LARGE) >= LARGE_BLOCKS else BN)), ceil_div(M, (BM_LARGE if ceil_div(N, BN_LARGE) * ceil_div(M, BM_LARGE) >= LARGE_BLOCKS else BM))) block (BM_LARGE // TM_LARGE * 32 if ceil_div(N, BN_LARGE) * ceil_div(M, BM_LARGE) >= LARGE_BLOCKS else BM // TM * 32) shared ((BM_LARGE if ceil_div(N, BN_LARGE) * ceil_div(M, BM_LARGE) >= LARGE_BLOCKS else BM) * 32 * 4)
#define BM 32
#define BN 32
#define TM 4
#define BM_LARGE 64
#define BN_LARGE 64
#define TM_LARGE 8
#define LARGE_BLOCKS 64
extern "C" __global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
    // Large tiles where they are LARGE_BLOCKS or more, else small ones: an SM without a block does nothing.
    constexpr bool is_large = ((N + BN_LARGE - 1) / BN_LARGE) * ((M + BM_LARGE - 1) / BM_LARGE) >= LARGE_BLOCKS;
    constexpr int bm = is_large ? BM_LARGE : BM, bn = is_large ? BN_LARGE : BN, tm = is_large ? TM_LARGE : TM;
    extern __shared__ float tile[];
    const int row0 = blockIdx.y * bm + threadIdx.x / 32 * tm, col0 = blockIdx.x * bn + threadIdx.x % 32;
    for (int col = col0; col < min(N, (blockIdx.x + 1) * bn); col += 32) {
        float sum[tm] = {};
        for (int i = 0; i < k; ++i)
            for (int r = 0; r < tm && row0 + r < M; ++r) sum[r] += a[(row0 + r) * k + i] * b[i * N + col];
        for (int r = 0; r < tm && row0 + r < M; ++r) c[(row0 + r) * N + col] = sum[r];
    }
}
