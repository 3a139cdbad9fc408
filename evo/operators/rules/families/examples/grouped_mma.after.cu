// evo: task grouped_mma
// evo: knob BM in 16, 32, 64, 128, 256
// evo: knob BN in 16, 32, 64, 128, 256
// evo: knob BK in 32, 64
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
#define STAGES 4
#define SHARES 4
extern "C" __global__ void experts(const half* x, const half* w, const int* expert_of, half* y, int T, int E, int D, int F) {
    // A block computes BM x BN results on tensor cores, a warp WM x WN of them; STAGES tiles of depth BK are under way.
    // Rows of a tile are 16 bytes longer than they need to be, so that ldmatrix meets no bank twice.
    constexpr int warps_n = BN / WN, threads = BM / WM * warps_n * 32;
    constexpr int left_size = BM * (BK + 8), stage = left_size + BK * (BN + 8);
    extern __shared__ __align__(16) unsigned short ring[];
    const unsigned ring_at = (unsigned)__cvta_generic_to_shared(ring);
    __shared__ int groups[BM];
    const unsigned short* const left = reinterpret_cast<const unsigned short*>(x);
    const int tile0 = blockIdx.y * BM, col0 = blockIdx.x * BN, lane = threadIdx.x % 32;
    const int warp_row = threadIdx.x / 32 / warps_n * WM, warp_col = threadIdx.x / 32 % warps_n * WN;
    const int tiles = (D + BK - 1) / BK;

    // Eight elements of a line, zeros behind the first count; one by one if lines are not aligned to 16 bytes.
    auto copy = [&](int to, const unsigned short* begin, long long at, int count, bool is_wide) {
        const unsigned short* const from = begin + (count > 0 ? at : 0);
        if (is_wide) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                         :: "r"(ring_at + 2 * to), "l"(from), "r"(2 * max(count, 0))
                         : "memory");
        } else {
            __align__(16) unsigned short held[8];
            #pragma unroll
            for (int i = 0; i < 8; ++i) held[i] = i < count ? from[i] : (unsigned short)0;
            *reinterpret_cast<uint4*>(ring + to) = *reinterpret_cast<const uint4*>(held);
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
            // Tile t to a place in the ring, zeros past the last one; what lies inside of the matrices is copied unasked.
            auto load = [&](int t, int to) {
                const int k0 = t * BK, rest = t < tiles ? D - k0 : 0;
                const unsigned short* const m_from = left;
                const bool m_wide = D % 8 == 0 && reinterpret_cast<unsigned long long>(m_from) % 16 == 0;
                const unsigned short* const n_from = right;
                const bool n_wide = F % 8 == 0 && reinterpret_cast<unsigned long long>(n_from) % 16 == 0;
                auto fill = [&](bool is_whole) {
                    {
                        constexpr int many = threads / (BK / 8);  // lines that all threads copy at once
                        const int row = threadIdx.x / (BK / 8);
                        const int col = threadIdx.x % (BK / 8) * 8;
                        const long long at = (long long)(row0 + row) * D + k0 + col;
                        const int lines = (rows) - row0 - row, elements = min(rest - col, 8);
                        #pragma unroll
                        for (int i = 0; i < BM; i += many) {
                            if (BM % many != 0 && row + i >= BM) break;
                            copy(to + (row + i) * (BK + 8) + col, m_from, at + (long long)i * D,
                                  is_whole ? 8 : i < lines ? elements : 0, is_whole || m_wide);
                        }
                    }
                    {
                        constexpr int many = threads / (BN / 8);  // lines that all threads copy at once
                        const int row = threadIdx.x / (BN / 8);
                        const int col = threadIdx.x % (BN / 8) * 8;
                        const long long at = (long long)(k0 + row) * F + col0 + col;
                        const int lines = rest - row, elements = min(F - col0 - col, 8);
                        #pragma unroll
                        for (int i = 0; i < BK; i += many) {
                            if (BK % many != 0 && row + i >= BK) break;
                            copy(to + left_size + (row + i) * (BN + 8) + col, n_from, at + (long long)i * F,
                                  is_whole ? 8 : i < lines ? elements : 0, is_whole || n_wide);
                        }
                    }
                };
                if (rest >= BK
                    && m_wide && row0 + BM <= rows
                    && n_wide && col0 + BN <= F)
                    fill(true);
                else
                    fill(false);
                asm volatile("cp.async.commit_group;" ::: "memory");
            };

            float sum[WM / 16][WN / 8][4] = {};
            unsigned xs[2][WM / 16][4], ys[2][WN / 16][4];
            auto take = [&](int from, int k, unsigned (&x_)[WM / 16][4], unsigned (&y_)[WN / 16][4]) {
                #pragma unroll
                for (int i = 0; i < WM / 16; ++i)
                    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                                 : "=r"(x_[i][0]), "=r"(x_[i][1]), "=r"(x_[i][2]), "=r"(x_[i][3])
                                 : "r"(ring_at + 2 * (from + (warp_row + lane / 8 % 2 * 8 + lane % 8) * (BK + 8) + lane / 16 * 8 + i * 16 * (BK + 8) + k)) : "memory");
                #pragma unroll
                for (int i = 0; i < WN / 16; ++i)
                    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                                 : "=r"(y_[i][0]), "=r"(y_[i][1]), "=r"(y_[i][2]), "=r"(y_[i][3])
                                 : "r"(ring_at + 2 * (from + left_size + (lane / 8 % 2 * 8 + lane % 8) * (BN + 8) + warp_col + lane / 16 * 8 + k * (BN + 8) + i * 16)) : "memory");
            };
            #pragma unroll 1
            for (int t = 0; t < STAGES - 1; ++t) load(t, t * stage);
            asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
            __syncthreads();
            take(0, 0, xs[0], ys[0]);
            int reading = 0, filling = (STAGES - 1) * stage;
            for (int t = 0; t < tiles; ++t) {
                #pragma unroll
                for (int k = 0; k < BK; k += 16) {
                    if (k == BK - 16) {
                        // All have read the last of this tile, and the next one is there.
                        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
                        __syncthreads();
                        reading = reading == (STAGES - 1) * stage ? 0 : reading + stage;
                    }
                    // The next fragments are on their way while these are multiplied.
                    take(reading, (k + 16) % BK, xs[(k / 16 + 1) % 2], ys[(k / 16 + 1) % 2]);
                    if (k == 0) {
                        load(t + STAGES - 1, filling);
                        filling = filling == (STAGES - 1) * stage ? 0 : filling + stage;
                    }
                    auto& x_ = xs[k / 16 % 2];
                    auto& y_ = ys[k / 16 % 2];
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
            asm volatile("cp.async.wait_group 0;" ::: "memory");
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
