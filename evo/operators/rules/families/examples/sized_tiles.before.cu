// evo: task sized_tiles
// evo: macro M
// evo: macro N
// evo: knob BM in 16, 32, 64
// evo: knob BN in 16, 32, 64
// evo: knob TM in 1, 2, 4, 8
// evo: require BM % TM == 0
// evo: launch product grid (ceil_div(N, BN), ceil_div(M, BM)) block (BM // TM * 32) shared (BM * 32 * 4)
#define BM 32
#define BN 32
#define TM 4
extern "C" __global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
    extern __shared__ float tile[];
    const int row0 = blockIdx.y * BM + threadIdx.x / 32 * TM, col0 = blockIdx.x * BN + threadIdx.x % 32;
    for (int col = col0; col < min(N, (blockIdx.x + 1) * BN); col += 32) {
        float sum[TM] = {};
        for (int i = 0; i < k; ++i)
            for (int r = 0; r < TM && row0 + r < M; ++r) sum[r] += a[(row0 + r) * k + i] * b[i * N + col];
        for (int r = 0; r < TM && row0 + r < M; ++r) c[(row0 + r) * N + col] = sum[r];
    }
}
