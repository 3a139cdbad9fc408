// evo: task convolution_mma
// evo: knob BM in 16, 32, 64, 128, 256
// evo: knob BN in 16, 32, 64, 128, 256
// evo: knob BK in 32, 64
// evo: knob WM in 16, 32, 64
// evo: knob WN in 16, 32, 64
// evo: knob STAGES in 2, 3, 4
// evo: require BM % WM == 0 and BN % WN == 0 and BM // WM * (BN // WN) <= 16 and shared <= chip.shared_per_block_optin
// evo: launch conv grid (ceil_div(K, BN), ceil_div(N * (H - R + 1) * (W - S + 1), BM)) block (BM // WM * (BN // WN) * 32) shared (STAGES * (BM * (BK + 8) + BK * (BN + 8)) * 2)
#include <cuda_fp16.h>
#define BM 64
#define BN 64
#define BK 32
#define WM 32
#define WN 32
#define STAGES 4
extern "C" __global__ void conv(const half* x, const half* w, const half* bias, half* y, int N, int H, int W, int C, int K, int R, int S) {
    // A block computes BM x BN results on tensor cores, a warp WM x WN of them; STAGES tiles of depth BK are under way.
    // Rows of a tile are 16 bytes longer than they need to be, so that ldmatrix meets no bank twice.
    constexpr int warps_n = BN / WN, threads = BM / WM * warps_n * 32;
    constexpr int left_size = BM * (BK + 8), stage = left_size + BK * (BN + 8);
    extern __shared__ __align__(16) unsigned short ring[];
    const unsigned ring_at = (unsigned)__cvta_generic_to_shared(ring);
    const unsigned short* const left = reinterpret_cast<const unsigned short*>(x);
    const unsigned short* const right = reinterpret_cast<const unsigned short*>(w);
    const int size1 = (H - R) + 1;
    const int size2 = (W - S) + 1;
    const int pixels = N * size1 * size2, depth = R * S * C;
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, lane = threadIdx.x % 32;
    const int warp_row = threadIdx.x / 32 / warps_n * WM, warp_col = threadIdx.x / 32 % warps_n * WN;
    const int tiles = (depth + BK - 1) / BK;

    // A thread copies the same 8 columns of every row of the matrix of windows that it has a part in.
    constexpr int parts = (BM * BK / 8 + threads - 1) / threads;
    int from0[parts], from1[parts], from2[parts];
    auto begin = [&](int i, int row) {
        const int at0 = row / (size1 * size2);
        const int at1 = row / size2 % size1;
        const int at2 = row % size2;
        from0[i] = at0;
        from1[i] = row < pixels ? at1 : -0x40000000;
        from2[i] = at2;
    };
    #pragma unroll
    for (int i = 0; i < parts; ++i) begin(i, row0 + (threadIdx.x + i * threads) / (BK / 8));
    // The place of an element of a window in the image, -1 for zeros.
    auto place = [&](int i, int at) -> long long {
        const int tap0 = at / (S * C), tap1 = at / C % S, tap2 = at % C;
        const int index1 = from1[i] + tap0;
        const int index2 = from2[i] + tap1;
        const bool is_inside = at < depth && index1 >= 0 && index1 < H && index2 >= 0 && index2 < W;
        return is_inside ? ((((long long)from0[i]) * H + index1) * W + index2) * C + tap2 : -1;
    };
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
    // Tile t to a place in the ring, zeros past the last one; what lies inside of the matrices is copied unasked.
    auto load = [&](int t, int to) {
        const int k0 = t * BK, rest = t < tiles ? depth - k0 : 0;
        const unsigned short* const n_from = right;
        const bool n_wide = K % 8 == 0 && reinterpret_cast<unsigned long long>(n_from) % 16 == 0;
        #pragma unroll
        for (int i = 0; i < parts; ++i) {
            const int e = threadIdx.x + i * threads, col = e % (BK / 8) * 8;
            if (e >= BM * BK / 8) break;
            unsigned short* const part = ring + to + e / (BK / 8) * (BK + 8) + col;
            if (C % 8 == 0) {
                const long long at = place(i, k0 + col);
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                             :: "r"((unsigned)__cvta_generic_to_shared(part)), "l"(left + max(at, 0LL)),
                                "r"(at >= 0 ? 16 : 0) : "memory");
            } else {
                __align__(16) unsigned short held[8];
                #pragma unroll
                for (int j = 0; j < 8; ++j) {
                    const long long at = place(i, k0 + col + j);
                    held[j] = at >= 0 ? left[at] : (unsigned short)0;
                }
                *reinterpret_cast<uint4*>(part) = *reinterpret_cast<const uint4*>(held);
            }
        }
        auto fill = [&](bool is_whole) {
            {
                constexpr int many = threads / (BN / 8);  // lines that all threads copy at once
                const int row = threadIdx.x / (BN / 8);
                const int col = threadIdx.x % (BN / 8) * 8;
                const long long at = (long long)(k0 + row) * K + col0 + col;
                const int lines = rest - row, elements = min(K - col0 - col, 8);
                #pragma unroll
                for (int i = 0; i < BK; i += many) {
                    if (BK % many != 0 && row + i >= BK) break;
                    copy(to + left_size + (row + i) * (BN + 8) + col, n_from, at + (long long)i * K,
                          is_whole ? 8 : i < lines ? elements : 0, is_whole || n_wide);
                }
            }
        };
        if (rest >= BK
            && n_wide && col0 + BN <= K)
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
    bool is_number = true;
    #pragma unroll
    for (int i = 0; i < WM / 16; ++i) {
        #pragma unroll
        for (int j = 0; j < WN / 8 * 4; ++j) is_number &= sum[i][j / 4][j % 4] == sum[i][j / 4][j % 4];
    }
    #pragma unroll
    for (int i = 0; i < WM / 16; ++i) {
        #pragma unroll
        for (int j = 0; j < WN / 8 * 2; ++j) {
            const int row = row0 + warp_row + i * 16 + j % 2 * 8 + lane / 4;
            const int first = col0 + warp_col + j / 2 * 8 + lane % 4 * 2;
            if (row >= pixels || first >= K) continue;
            __align__(4) half held[2];
            #pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int col = first + e;
                if (col < K) held[e] = __float2half(fmax(sum[i][j / 2][j % 2 * 2 + e] + __half2float(bias[col]), 0.0f));
            }
            half* const spot = &y[(long long)row * K + first];
            if (K % 2 == 0) {
                *reinterpret_cast<unsigned*>(spot) = *reinterpret_cast<const unsigned*>(held);
            } else {
                spot[0] = held[0];
                if (first + 1 < K) spot[1] = held[1];
            }
        }
    }
    // An infinite filter times a zero of the border is NaN, so such sums are taken again without it.
    for (int e = 0; !is_number && e < WM * WN / 32; ++e) {
        const int row = row0 + warp_row + e / (WN / 4) * 8 + lane / 4;
        const int col = col0 + warp_col + e % (WN / 4) / 2 * 8 + lane % 4 * 2 + e % 2;
        if (row >= pixels || col >= K) continue;
        float total = 0.0f;
        begin(0, row);
        for (int at = 0; at < depth; ++at) {
            const long long from = place(0, at);
            if (from >= 0) total += __half2float(x[from]) * __half2float(w[(long long)at * K + col]);
        }
        y[(long long)row * K + col] = __float2half(fmax(total + __half2float(bias[col]), 0.0f));
    }
}
