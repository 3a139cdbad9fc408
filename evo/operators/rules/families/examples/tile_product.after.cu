// evo: task tile_product
// evo: knob BM in 32, 64, 128
// evo: knob BN in 32, 64, 128
// evo: knob BK in 8, 16, 32
// evo: knob TM in 2, 4, 8
// evo: knob TN in 2, 4, 8
// evo: require BM % TM == 0 and BN % TN == 0
// evo: launch linear grid (ceil_div(N, BN), ceil_div(M, BM)) block (BM // TM * (BN // TN)) shared 0
typedef unsigned int uint;
#define BM 64
#define BN 64
#define BK 16
#define TM 4
#define TN 4
extern "C" __global__ void linear(const float* a, const float* b, const float* bias, float* c, int M, int N, int K) {
    // A block computes BM x BN results from tiles of BK columns and rows; a thread TM x TN of them in registers.
    constexpr int threads = BM / TM * (BN / TN);
    __shared__ __align__(16) float a_tile[BK][BM + 4];
    __shared__ __align__(16) float b_tile[BK][BN + 4];
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    const auto* const left = a;
    const auto* const right = b;
    const int ty = threadIdx.x / (BN / TN) * TM, tx = threadIdx.x % (BN / TN) * TN;
    float sum[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int e = threadIdx.x; e < BM * BK; e += threads) {
            const int k = e % BK, m = e / BK;
            a_tile[k][m] = row0 + m < M && k0 + k < K ? left[(row0 + m) * K + k0 + k] : 0;
        }
        for (int e = threadIdx.x; e < BN * BK; e += threads) {
            const int k = e % BK, n = e / BK;
            b_tile[k][n] = col0 + n < N && k0 + k < K ? right[(col0 + n) * K + k0 + k] : 0;
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float x[TM], y[TN];
            #pragma unroll
            for (int i = 0; i < TM; ++i) x[i] = a_tile[k][ty + i];
            #pragma unroll
            for (int j = 0; j < TN; ++j) y[j] = b_tile[k][tx + j];
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int j = 0; j < TN; ++j) sum[i][j] += x[i] * y[j];
            }
        }
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int row = row0 + ty + i, col = col0 + tx + j;
            if (row < M && col < N) c[row * N + col] = sum[i][j] + bias[col];
        }
    }
}
