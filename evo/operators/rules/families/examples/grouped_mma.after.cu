// evo: task grouped_mma
// evo: knob BM in 16, 32, 64, 128, 256
// evo: knob BN in 16, 32, 64, 128, 256
// evo: knob BK in 16, 32, 64
// evo: knob WM in 16, 32, 64
// evo: knob WN in 16, 32, 64
// evo: knob STAGES in 2, 3, 4
// evo: knob SHARES in 1, 2, 4, 8, 16, 32
// evo: require BM % WM == 0 and BN % WN == 0 and BM // WM * (BN // WN) <= 16 and shared <= chip.shared_per_block_optin
// evo: launch experts grid (ceil_div(F, BN), ceil_div(T, BM), SHARES) block (BM // WM * (BN // WN) * 32) shared (STAGES * (BM * (BK + 8) + BK * (BN + 8)) * 2)
#include <cuda_fp16.h>
#define BM 64
#define BN 64
#define BK 32
#define WM 32
#define WN 32
#define STAGES 3
#define SHARES 4
extern "C" __global__ void experts(const half* x, const half* w, const int* expert_of, half* y, int T, int E, int D, int F) {
    // A block computes BM x BN results on tensor cores, a warp WM x WN of them; STAGES tiles of depth BK are under way.
    // Rows of a tile are 16 bytes longer than they need to be, so that ldmatrix meets no bank twice.
    constexpr int warps_n = BN / WN, threads = BM / WM * warps_n * 32;
    constexpr int left_size = BM * (BK + 8), stage = left_size + BK * (BN + 8);
    extern __shared__ __align__(16) unsigned short ring[];
    __shared__ int groups[BM];
    const unsigned short* const left = reinterpret_cast<const unsigned short*>(x);
    const int tile0 = blockIdx.y * BM, col0 = blockIdx.x * BN, lane = threadIdx.x % 32;
    const int warp_row = threadIdx.x / 32 / warps_n * WM, warp_col = threadIdx.x / 32 % warps_n * WN;
    const int tiles = (D + BK - 1) / BK;

    // Eight elements of a line, zeros outside of the matrix; one by one if lines are not aligned to 16 bytes.
    auto copy = [](unsigned short* to, const unsigned short* from, int row, int col, int rows, int cols, int stride) {
        const int count = row < rows ? max(min(cols - col, 8), 0) : 0;
        const unsigned short* const at = from + (count > 0 ? (long long)row * stride + col : 0);
        if (stride % 8 == 0 && reinterpret_cast<unsigned long long>(from) % 16 == 0) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                         :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(at), "r"(count * 2)
                         : "memory");
        } else {
            __align__(16) unsigned short held[8];
            #pragma unroll
            for (int i = 0; i < 8; ++i) held[i] = i < count ? at[i] : (unsigned short)0;
            *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(held);
        }
    };
    auto group_of = [&](int t) {
        return expert_of[t];
    };
    const int here = min(BM, T - tile0);
    for (int e = threadIdx.x; e < here; e += threads) groups[e] = group_of(tile0 + e);
    __syncthreads();

    // The rows of a tile by runs of one group; SHARES blocks take turns with the runs.
    for (int first = 0, turn = 0; first < here; ++turn) {
        const int group = groups[first], row0 = tile0 + first;
        int end = first;
        for (unsigned same = ~0u; same == ~0u && end < here;) {
            same = __ballot_sync(~0u, end + lane < here && groups[end + lane] == group);
            end += same == ~0u ? 32 : __ffs(~same) - 1;
        }
        if (turn % SHARES == blockIdx.z) {
            const int rows = tile0 + end;
            const unsigned short* const right =
                reinterpret_cast<const unsigned short*>(w) + (long long)group * F * D;
            auto load = [&](int t) {
                if (t < tiles) {
                    unsigned short* const to = ring + t % STAGES * stage;
                    for (int e = threadIdx.x; e < BM * BK / 8; e += threads) {
                        const int row = e / (BK / 8), col = e % (BK / 8) * 8;
                        copy(to + row * (BK + 8) + col, left, row0 + row, t * BK + col, rows, D,
                              D);
                    }
                    for (int e = threadIdx.x; e < BK * BN / 8; e += threads) {
                        const int row = e / (BN / 8), col = e % (BN / 8) * 8;
                        copy(to + left_size + row * (BN + 8) + col, right, t * BK + row, col0 + col, D, F,
                              F);
                    }
                }
                asm volatile("cp.async.commit_group;" ::: "memory");  // empty past the end, so that the count is right
            };

            float sum[WM / 16][WN / 8][4] = {};
            for (int t = 0; t < STAGES - 1; ++t) load(t);
            for (int t = 0; t < tiles; ++t) {
                asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
                __syncthreads();
                load(t + STAGES - 1);
                const unsigned short* const left_tile = ring + t % STAGES * stage;
                const unsigned short* const right_tile = left_tile + left_size;
                #pragma unroll
                for (int k = 0; k < BK; k += 16) {
                    unsigned x_[WM / 16][4], y_[WN / 16][4];
                    #pragma unroll
                    for (int i = 0; i < WM / 16; ++i)
                        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                                     : "=r"(x_[i][0]), "=r"(x_[i][1]), "=r"(x_[i][2]), "=r"(x_[i][3])
                                     : "r"((unsigned)__cvta_generic_to_shared(left_tile + (warp_row + i * 16 + lane / 8 % 2 * 8 + lane % 8) * (BK + 8) + k + lane / 16 * 8)) : "memory");
                    #pragma unroll
                    for (int i = 0; i < WN / 16; ++i)
                        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                                     : "=r"(y_[i][0]), "=r"(y_[i][1]), "=r"(y_[i][2]), "=r"(y_[i][3])
                                     : "r"((unsigned)__cvta_generic_to_shared(right_tile + (k + lane / 8 % 2 * 8 + lane % 8) * (BN + 8) + warp_col + i * 16 + lane / 16 * 8)) : "memory");
                    #pragma unroll
                    for (int i = 0; i < WM / 16; ++i) {
                        #pragma unroll
                        for (int j = 0; j < WN / 8; ++j)
                            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                                         "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                         : "+f"(sum[i][j][0]), "+f"(sum[i][j][1]), "+f"(sum[i][j][2]), "+f"(sum[i][j][3])
                                         : "r"(x_[i][0]), "r"(x_[i][1]), "r"(x_[i][2]), "r"(x_[i][3]),
                                           "r"(y_[j / 2][j % 2 * 2]), "r"(y_[j / 2][j % 2 * 2 + 1]));
                    }
                }
            }
            #pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
                #pragma unroll
                for (int j = 0; j < WN / 8 * 2; ++j) {
                    const int row = row0 + warp_row + i * 16 + j % 2 * 8 + lane / 4;
                    const int first = col0 + warp_col + j / 2 * 8 + lane % 4 * 2;
                    if (row >= rows || first >= F) continue;
                    __align__(4) half held[2];
                    #pragma unroll
                    for (int e = 0; e < 2; ++e) {
                        const int col = first + e;
                        if (col < F) held[e] = __float2half(sum[i][j / 2][j % 2 * 2 + e]);
                    }
                    half* const spot = &y[(long long)row * F + first];
                    if (F % 2 == 0) {
                        *reinterpret_cast<unsigned*>(spot) = *reinterpret_cast<const unsigned*>(held);
                    } else {
                        spot[0] = held[0];
                        if (first + 1 < F) spot[1] = held[1];
                    }
                }
            }
            __syncthreads();  // before the next group's tiles replace these
        }
        first = end;
    }
}
