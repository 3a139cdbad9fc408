// evo: task sized_tiles
// evo: macro M
// evo: macro N
// evo: knob BM in 16, 32, 64
// evo: knob BN in 16, 32, 64
// evo: knob TM in 1, 2, 4, 8
// evo: knob TN in 1, 2, 4, 8
// evo: require BM % TM == 0 and BN % TN == 0
// evo: launch product grid (ceil_div(N, BN), ceil_div(M, BM)) block (BM // TM * (BN // TN)) shared 0
#define BM 32
#define BN 32
#define TM 2
#define TN 2
extern "C" __global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
    const int row0 = blockIdx.y * BM + threadIdx.x / (BN / TN) * TM;
    const int col0 = blockIdx.x * BN + threadIdx.x % (BN / TN) * TN;
    float sum[TM][TN] = {};
    for (int i = 0; i < k; ++i) {
        float x[TM], y[TN];
        for (int r = 0; r < TM; ++r) x[r] = row0 + r < M ? a[(row0 + r) * k + i] : 0.0f;
        for (int s = 0; s < TN; ++s) y[s] = col0 + s < N ? b[i * N + col0 + s] : 0.0f;
        for (int r = 0; r < TM; ++r)
            for (int s = 0; s < TN; ++s) sum[r][s] += x[r] * y[s];
    }
    for (int r = 0; r < TM; ++r)
        for (int s = 0; s < TN; ++s)
            if (row0 + r < M && col0 + s < N) c[(row0 + r) * N + col0 + s] = sum[r][s];
}
