// evo: task sized_tiles
// evo: macro M
// evo: macro N
// evo: knob BM in 16, 32, 64
// evo: knob BN in 16, 32, 64
// evo: knob TM in 1, 2, 4, 8
// evo: knob TN in 1, 2, 4, 8
// evo: knob BM_LARGE in 16, 32, 64
// evo: knob BN_LARGE in 16, 32, 64
// evo: knob TM_LARGE in 1, 2, 4, 8
// evo: knob TN_LARGE in 1, 2, 4, 8
// evo: knob LARGE_BLOCKS in 16, 32, 48, 64, 96, 128, 192, 256
// evo: require BM % TM == 0 and BN % TN == 0
// evo: require BM_LARGE % TM_LARGE == 0 and BN_LARGE % TN_LARGE == 0
// evo: launch product grid (ceil_div(N, (BN_LARGE if ceil_div(N, BN_LARGE) * ceil_div(M, BM_LARGE) >= LARGE_BLOCKS else BN)), ceil_div(M, (BM_LARGE if ceil_div(N, BN_LARGE) * ceil_div(M, BM_LARGE) >= LARGE_BLOCKS else BM))) block (BM_LARGE // TM_LARGE * (BN_LARGE // TN_LARGE) if ceil_div(N, BN_LARGE) * ceil_div(M, BM_LARGE) >= LARGE_BLOCKS else BM // TM * (BN // TN)) shared 0
#define BM 32
#define BN 32
#define TM 2
#define TN 2
#define BM_LARGE 64
#define BN_LARGE 64
#define TM_LARGE 4
#define TN_LARGE 4
#define LARGE_BLOCKS 64
extern "C" __global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
    // Large tiles where they are LARGE_BLOCKS or more, else small ones: an SM without a block does nothing.
    constexpr bool is_large = ((N + BN_LARGE - 1) / BN_LARGE) * ((M + BM_LARGE - 1) / BM_LARGE) >= LARGE_BLOCKS;
    constexpr int bm = is_large ? BM_LARGE : BM, bn = is_large ? BN_LARGE : BN, tm = is_large ? TM_LARGE : TM, tn = is_large ? TN_LARGE : TN;
    const int row0 = blockIdx.y * bm + threadIdx.x / (bn / tn) * tm;
    const int col0 = blockIdx.x * bn + threadIdx.x % (bn / tn) * tn;
    float sum[tm][tn] = {};
    for (int i = 0; i < k; ++i) {
        float x[tm], y[tn];
        for (int r = 0; r < tm; ++r) x[r] = row0 + r < M ? a[(row0 + r) * k + i] : 0.0f;
        for (int s = 0; s < tn; ++s) y[s] = col0 + s < N ? b[i * N + col0 + s] : 0.0f;
        for (int r = 0; r < tm; ++r)
            for (int s = 0; s < tn; ++s) sum[r][s] += x[r] * y[s];
    }
    for (int r = 0; r < tm; ++r)
        for (int s = 0; s < tn; ++s)
            if (row0 + r < M && col0 + s < N) c[(row0 + r) * N + col0 + s] = sum[r][s];
}
