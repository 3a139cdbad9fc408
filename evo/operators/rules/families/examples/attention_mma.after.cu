// evo: task attention_mma
// evo: macro D
// evo: knob BM in 16, 32, 64, 128
// evo: knob BN in 16, 32, 64, 128
// evo: knob STAGES in 2, 3, 4
// evo: require shared <= chip.shared_per_block_optin
// evo: launch heads grid (ceil_div(L, BM), H, N) block (BM * 2) shared ((BM + STAGES * 2 * BN) * (ceil_div(D, 16) * 16 + 8) * 2)
#include <cuda_fp16.h>
#define BM 32
#define BN 64
#define STAGES 2
extern "C" __global__ void heads(const half* q, const half* k, const half* v, half* o, int N, int H, int L, int D_given) {
    // A warp computes 16 rows on tensor cores: scores, weights and output stay in registers, while tiles of BN keys and
    // values come through shared memory, STAGES of them under way. Rows there are 16 bytes longer than they need to
    // be, so that ldmatrix meets no bank twice.
    constexpr int dim = D, width = (dim + 15) / 16 * 16, pitch = width + 8, threads = BM * 2;
    constexpr int stage = 2 * BN * pitch;
    extern __shared__ __align__(16) unsigned short tiles[];
    unsigned short* const ring = tiles + BM * pitch;
    const int at0 = blockIdx.z, at1 = blockIdx.y;
    const unsigned short* const query =
        reinterpret_cast<const unsigned short*>(q) + (((long long)at0 * H + at1) * L) * D;
    const unsigned short* const key =
        reinterpret_cast<const unsigned short*>(k) + (((long long)at0 * H + at1) * L) * D;
    const unsigned short* const value =
        reinterpret_cast<const unsigned short*>(v) + (((long long)at0 * H + at1) * L) * D;
    const int row0 = blockIdx.x * BM, lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 16;
    auto seen = [&](int row) { return min(L, row + 1); };  // how many keys count for a row
    const int end = seen(min(row0 + BM, L) - 1), steps = (end + BN - 1) / BN;
    const int top_seen = seen(row0 + warp_row + lane / 4), low_seen = seen(row0 + warp_row + lane / 4 + 8);
    const float scale_log2 = rsqrtf(D) * 1.4426950408889634f;

    // Rows of a matrix into a tile, zeros past its end; element by element if rows are not aligned to 16 bytes.
    constexpr int across = width / 8 < threads ? width / 8 : threads, step = threads / across;
    const int top = threadIdx.x / across, left = threadIdx.x % across * 8;
    auto copy = [&](unsigned short* to, const unsigned short* from, long long stride, int first, int count,
                     int last) {
        const unsigned short* const begin = from + (first + top) * stride;
        #pragma unroll
        for (int r = 0; r < count; r += step) {
            const int row = top + r;
            if ((threads % across && top >= step) || (count % step && row >= count)) break;
            const bool is_there = first + row < last;
            const unsigned short* const at = begin + r * stride;  // past the end it is formed but never read
            for (int col = left; col < width; col += across * 8) {
                unsigned short* const part = to + row * pitch + col;
                if constexpr (dim % 8 == 0) {
                    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                                 :: "r"((unsigned)__cvta_generic_to_shared(part)), "l"(at + col),
                                    "r"(is_there && col < dim ? 16 : 0) : "memory");
                } else {
                    for (int i = 0; i < 8; ++i)
                        part[i] = is_there && col + i < dim ? at[col + i] : (unsigned short)0;
                }
            }
        }
    };
    auto load = [&](int t) {
        if (t < steps) {
            unsigned short* const to = ring + t % STAGES * stage;
            copy(to, key, D, t * BN, BN, end);
            copy(to + BN * pitch, value, D, t * BN, BN, end);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");  // empty past the end, so that the count is right
    };
    copy(tiles, query, D, row0, BM, L);  // comes with the first stage
    for (int t = 0; t < STAGES - 1; ++t) load(t);

    auto matrices = [](unsigned* to, const unsigned short* at) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"((unsigned)__cvta_generic_to_shared(at)) : "memory");
    };
    auto transposed = [](unsigned* to, const unsigned short* at) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"((unsigned)__cvta_generic_to_shared(at)) : "memory");
    };
    auto multiply = [](float* sum, const unsigned* x, unsigned y0, unsigned y1) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y0), "r"(y1));
    };
    auto pair = [](float low, float high) {
        unsigned both;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
        return both;
    };
    auto exp2 = [](float x) {
        float y;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
        return y;
    };

    // Of an 8 x 8 tile a lane holds two neighbouring columns of row lane / 4, and of the row 8 below.
    unsigned rows[width / 16][4];
    float out[width / 8][4] = {}, largest[2] = {-INFINITY, -INFINITY}, total[2] = {};
    for (int t = 0; t < steps; ++t) {
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
        __syncthreads();
        load(t + STAGES - 1);
        if (t == 0) {
            #pragma unroll
            for (int d = 0; d < width; d += 16)
                matrices(rows[d / 16], tiles + (warp_row + lane % 16) * pitch + d + lane / 16 * 8);
        }
        const unsigned short* const keys = ring + t % STAGES * stage;
        const unsigned short* const values = keys + BN * pitch;

        float score[BN / 8][4] = {};
        #pragma unroll
        for (int d = 0; d < width; d += 16) {
            #pragma unroll
            for (int n = 0; n < BN; n += 16) {
                unsigned y[4];
                matrices(y, keys + (n + lane / 16 * 8 + lane % 8) * pitch + d + lane / 8 % 2 * 8);
                multiply(score[n / 8], rows[d / 16], y[0], y[1]);
                multiply(score[n / 8 + 1], rows[d / 16], y[2], y[3]);
            }
        }
        if (t * BN + BN > min(top_seen, low_seen)) {
            #pragma unroll
            for (int n = 0; n < BN / 8; ++n) {
                #pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int at = t * BN + n * 8 + lane % 4 * 2 + e % 2;
                    if (at >= (e < 2 ? top_seen : low_seen)) score[n][e] = -INFINITY;
                }
            }
        }

        #pragma unroll
        for (int h = 0; h < 2; ++h) {
            float next = largest[h], added = 0.0f;
            #pragma unroll
            for (int n = 0; n < BN / 8; ++n) {
                next = fmaxf(next, fmaxf(score[n][2 * h], score[n][2 * h + 1]));
            }
            next = fmaxf(next, __shfl_xor_sync(~0u, next, 1));
            next = fmaxf(next, __shfl_xor_sync(~0u, next, 2));
            const float shift = next == -INFINITY ? 0.0f : next * scale_log2;
            const float keep = exp2(largest[h] * scale_log2 - shift);
            largest[h] = next;
            #pragma unroll
            for (int n = 0; n < BN / 8; ++n) {
                score[n][2 * h] = exp2(score[n][2 * h] * scale_log2 - shift);
                score[n][2 * h + 1] = exp2(score[n][2 * h + 1] * scale_log2 - shift);
                added += score[n][2 * h] + score[n][2 * h + 1];
            }
            total[h] = total[h] * keep + added;
            #pragma unroll
            for (int n = 0; n < width / 8; ++n) {
                out[n][2 * h] *= keep;
                out[n][2 * h + 1] *= keep;
            }
        }

        // Two neighbouring tiles of weights, rounded to 16 bits, are a left factor as they stand.
        #pragma unroll
        for (int n = 0; n < BN; n += 16) {
            const float* const low = score[n / 8];
            const float* const high = score[n / 8 + 1];
            const unsigned x[4] = {pair(low[0], low[1]), pair(low[2], low[3]),
                                    pair(high[0], high[1]), pair(high[2], high[3])};
            #pragma unroll
            for (int d = 0; d < width; d += 16) {
                unsigned y[4];
                transposed(y, values + (n + lane % 16) * pitch + d + lane / 16 * 8);
                multiply(out[d / 8], x, y[0], y[1]);
                multiply(out[d / 8 + 1], x, y[2], y[3]);
            }
        }
    }

    #pragma unroll
    for (int h = 0; h < 2; ++h) {
        total[h] += __shfl_xor_sync(~0u, total[h], 1);
        total[h] += __shfl_xor_sync(~0u, total[h], 2);
        const float inverse = 1.0f / total[h];
        const int row = row0 + warp_row + h * 8 + lane / 4;
        if (row < L) {
            unsigned short* const to =
                reinterpret_cast<unsigned short*>(o + (((long long)at0 * H + at1) * L) * D) + row * (long long)(D);
            #pragma unroll
            for (int n = 0; n < width / 8; ++n) {
                const int col = n * 8 + lane % 4 * 2;
                if (col >= dim) continue;
                const unsigned both =
                    pair(out[n][2 * h] * inverse, out[n][2 * h + 1] * inverse);
                if constexpr (dim % 2 == 0) {
                    *reinterpret_cast<unsigned*>(to + col) = both;
                } else {
                    to[col] = (unsigned short)both;
                    if (col + 1 < dim) to[col + 1] = (unsigned short)(both >> 16);
                }
            }
        }
    }
}
