// evo: task tile_stream
// evo: knob BM in 32, 64, 128
// evo: knob BN in 32, 64, 128
// evo: knob BK in 8, 16, 32
// evo: knob TM in 2, 4, 8
// evo: knob TN in 2, 4, 8
// evo: require 8 * (BM + BN + 8) * (BK + 4) <= 49152 and BM // TM * (BN // TN) <= 1024
// evo: launch linear grid (ceil_div(N, BN), ceil_div(M, BM)) block (BM // TM * (BN // TN)) shared 0
typedef unsigned int uint;
#define BM 128
#define BN 64
#define BK 16
#define TM 8
#define TN 8
extern "C" __global__ void linear(const float* a, const float* b, const float* bias, float* c, int M, int N, int K) {
    // A block computes BM x BN results from tiles of BK columns and rows, two in turns: one comes while the other is
    // multiplied. A thread has TM x TN results in registers.
    constexpr int threads = BM / TM * (BN / TN);
    __shared__ __align__(16) float a_tile[2][BM][BK + 4];
    __shared__ __align__(16) float b_tile[2][BN][BK + 4];
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, tiles = (K + BK - 1) / BK;
    const auto* const left = a;
    const auto* const right = b;
    const int ty = threadIdx.x / (BN / TN) * TM, tx = threadIdx.x % (BN / TN);
    auto copy = [](float* to, const float* from, int row, int rows, int col, int cols, int stride) {
        const int count = row < rows ? max(min(cols - col, 4), 0) : 0;
        const float* at = count > 0 ? from + (long long)row * stride + col : from;
        if (stride % 4 == 0 && reinterpret_cast<unsigned long long>(from) % 16 == 0) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                         :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(at), "r"(count * 4) : "memory");
        } else {
            for (int i = 0; i < 4; ++i) to[i] = i < count ? at[i] : 0;
        }
    };
    float sum[TM][TN] = {};
    for (int t = 0; t <= tiles; ++t) {
        if (t < tiles) {
            const int k0 = t * BK;
            for (int e = threadIdx.x; e < BM * BK / 4; e += threads) {
                const int k = e % (BK / 4) * 4, m = e / (BK / 4);
                copy(&a_tile[t % 2][m][k], left, row0 + m, M, k0 + k, K, K);
            }
            for (int e = threadIdx.x; e < BN * BK / 4; e += threads) {
                const int k = e % (BK / 4) * 4, n = e / (BK / 4);
                copy(&b_tile[t % 2][n][k], right, col0 + n, N, k0 + k, K, K);
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");  // empty past the end, so that the count is right
        if (t == 0) continue;
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; k += 4) {
            float x[TM][4], y[TN][4];
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int q = 0; q < 4; ++q) x[i][q] = a_tile[(t - 1) % 2][ty + i][k + q];
            }
            #pragma unroll
            for (int j = 0; j < TN; ++j) {
                #pragma unroll
                for (int q = 0; q < 4; ++q) y[j][q] = b_tile[(t - 1) % 2][tx + j * (BN / TN)][k + q];
            }
            #pragma unroll
            for (int q = 0; q < 4; ++q) {
                #pragma unroll
                for (int i = 0; i < TM; ++i) {
                    #pragma unroll
                    for (int j = 0; j < TN; ++j) sum[i][j] += x[i][q] * y[j][q];
                }
            }
        }
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int row = row0 + ty + i, col = col0 + tx + j * (BN / TN);
            if (row < M && col < N) c[row * N + col] = sum[i][j] + bias[col];
        }
    }
}
