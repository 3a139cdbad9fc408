// Keys flow through a warp with no pass for their maximum: scores, exponentials and P V are straight-line code.
// Roadmap step 8: the softmax stays in registers and leaves the critical path.
// Hypothesis: what the wide rung still waits for is the maximum (compare, shuffle, vote between the products) and the
// copies that stand before them. A weight needs no exact maximum, only one that keeps it in range of fp16: the first 16
// keys give one, and a sum that grows far past it raises it. With neither branch nor shuffle in between, the compiler
// mixes exponentials, copies and multiplications. Expect 1.1x. A block in which a weight does leave the range (scores
// that rise by more than 11 after the first 16 keys) starts again and looks at every maximum: half the speed, then.
// evo: task   attention
// evo: macro  D
// evo: knob   BLOCK_N in 32, 64                    keys of one stage
// evo: knob   STAGES in 2, 3
// evo: knob   PASS in 16, 32, 64                   keys between score and weight
// evo: knob   PASS_WIDE in 16, 32, 64              the same if D > 64 or the keys are split
// evo: knob   Q_KEPT in 0, 1, 2, 4                 k-steps of Q that stay in registers if D > 64; all do otherwise
// evo: knob   SPLIT in 0, 1, 2                     blocks per SM up to which two groups of warps share the keys
// evo: require D <= 128
// evo: require shared <= chip.shared_per_block_optin
// evo: launch attention grid (ceil_div(SQ, 64 if D <= 64 and ceil_div(SQ, 64) * HQ * B <= SPLIT * chip.sms else 128), HQ, B) block (64 if D <= 64 and ceil_div(SQ, 64) * HQ * B <= SPLIT * chip.sms else 128, 2 if D <= 64 and ceil_div(SQ, 64) * HQ * B <= SPLIT * chip.sms else 1) shared (128 * D + max(8 * STAGES * BLOCK_N * D, 256 * D + 1024) if D <= 64 and ceil_div(SQ, 64) * HQ * B <= SPLIT * chip.sms else 256 * D + 4 * STAGES * BLOCK_N * D)
#include <cuda_fp16.h>

#define BLOCK_N 64
#define STAGES 2
#define PASS 16
#define PASS_WIDE 64
#define Q_KEPT 0
#define SPLIT 1

constexpr int WARPS = 4;                        // 32 query rows each; if the keys are split, two pairs share rows
constexpr int CHUNKS = D / 8;                   // 16-byte chunks of a row
constexpr int D_STEPS = D / 16;                 // k-steps of Q K^T
constexpr int D_TILES = D / 8;                  // 8-column tiles of the output
constexpr int KEPT = D > 64 ? Q_KEPT : D_STEPS;
constexpr int STEPS = BLOCK_N / 16;             // k-steps of P V in a stage
constexpr int TILE_BYTES = BLOCK_N * D * 2;
constexpr unsigned ALL = 0xffffffffu;
static_assert(D % 64 == 0, "the swizzle permutes eight chunks");

// Read anew where it is used: what follows from it then needs no register in the loops between.
__device__ inline int thread_index() {
    int x;
    asm volatile("mov.u32 %0, %%tid.x;\n" : "=r"(x));
    return x;
}

__device__ inline int head_index(int heads) {  // of the query head, over the whole batch
    int y, z;
    asm volatile("mov.u32 %0, %%ctaid.y;\n" : "=r"(y));
    asm volatile("mov.u32 %0, %%ctaid.z;\n" : "=r"(z));
    return z * heads + y;
}

// Byte offset of a 16-byte chunk in a swizzled tile.
__device__ inline unsigned chunk_at(int row, int chunk) { return (row * CHUNKS + (chunk ^ (row & 7))) * 16; }

__device__ inline void copy_async(unsigned to, const __half* from, bool present) {
    const int bytes = present ? 16 : 0;  // the rest of the 16 bytes is zero-filled
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

__device__ inline void commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

template <int PENDING>
__device__ inline void wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(PENDING) : "memory");
}

__device__ inline void load_matrices(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

__device__ inline void load_matrices_transposed(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

// Address of chunks 2 i and 2 i + 1 of a swizzled row, from that of chunks 0 and 1; tiles are aligned to 128 bytes.
__device__ inline unsigned pair_at(unsigned base, int i) { return (base ^ i % 4 * 32) + i / 4 * 128; }

// acc += a (16x16) * b (16x8), fp16 operands, fp32 accumulators.
__device__ inline void multiply_add(float (&acc)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};\n"
                 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline float log2_fast(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline unsigned pack(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
}

// What a warp holds of its 32 rows. Of a 16x8 accumulator tile a lane holds columns 2 (lane % 4) and + 1 of rows
// lane / 4 (c0, c1) and + 8 (c2, c3): index [m][..][2 * h + ..] is row 16 m + 8 h + lane / 4.
struct Rows {
    float out[2][D_TILES][4];
    float shift[2][2];    // what the exponents are relative to, base 2
    float weights[2][2];  // this lane's share of the sum

    __device__ inline void reset() {
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
            for (int n = 0; n < D_TILES; ++n) out[m][n][0] = out[m][n][1] = out[m][n][2] = out[m][n][3] = 0.0f;
            shift[m][0] = shift[m][1] = -1e30f;  // finite, so that masked scores give zeros
            weights[m][0] = weights[m][1] = 0.0f;
        }
    }

    // Makes all weights relative to 2^now.
    __device__ inline void rescale(int m, int h, float now) {
        const float keep = exp2_fast(shift[m][h] - now);
        shift[m][h] = now;
        weights[m][h] *= keep;
#pragma unroll
        for (int n = 0; n < D_TILES; ++n) {
            out[m][n][2 * h] *= keep;
            out[m][n][2 * h + 1] *= keep;
        }
    }
};

// What a launch is about.
struct Problem {
    const __half *q, *k, *v;
    __half* o;
    float scale;
    int heads, kv_heads, queries, keys, causal;
};

// One block, of GROUPS groups of warps: stage t of the keys belongs to group t % GROUPS.
template <int GROUPS>
__device__ __forceinline__ void attend(const Problem p) {
    constexpr int THREADS = WARPS * 32 / GROUPS;  // of a group
    constexpr int BLOCK_M = THREADS;              // rows of a group, one to a thread
    constexpr int STEP = THREADS / CHUNKS;        // rows that a group copies at a time
    constexpr int ROUNDS = BLOCK_N / STEP;        // copies of a thread per tile
    constexpr int WANTED = (GROUPS == 1 && D <= 64 ? PASS : PASS_WIDE) / 16;
    constexpr int P_STEPS = WANTED < STEPS ? WANTED : STEPS;  // k-steps of P V in a pass
    static_assert(STEP % 8 == 0, "a thread's rows share one swizzle");
    const int group = GROUPS == 1 ? 0 : threadIdx.y;
    extern __shared__ __align__(128) unsigned char memory[];
    const unsigned q_tile = static_cast<unsigned>(__cvta_generic_to_shared(memory));
    const unsigned ring = q_tile + BLOCK_M * D * 2 + group * (2 * STAGES * TILE_BYTES);
    const auto sync_group = [&]() __attribute__((always_inline)) {
        if (GROUPS == 1)
            __syncthreads();
        else
            asm volatile("bar.sync %0, %1;\n" ::"r"(group + 1), "n"(THREADS) : "memory");
    };

    // Under the causal mask the last rows have the most keys: they start first. No row needs a key past the last row.
    const int first_row = (p.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * BLOCK_M;
    const auto warp_row = [&]() __attribute__((always_inline)) { return first_row + thread_index() / 32 * 32; };
    const int end = p.causal ? min(p.keys, min(first_row + BLOCK_M, p.queries)) : p.keys;
    // A thread copies one chunk of every STEP-th row; rows past the end become zeros and are not read.
    const unsigned place = chunk_at(threadIdx.x / CHUNKS, threadIdx.x % CHUNKS);
    const __half* k_from;
    int left;
    const auto start = [&]() __attribute__((always_inline)) {
        const int head = head_index(p.heads) / (p.heads / p.kv_heads);
        const int row = group * BLOCK_N + thread_index() / CHUNKS;
        const long long from = ((long long)head * p.keys + row) * D + thread_index() % CHUNKS * 8;
        k_from = p.k + from;
        left = end - row;
    };
    start();
    const auto copy = [&](unsigned stage, int i) __attribute__((always_inline)) {  // of 2 * ROUNDS: K, then V
        const int r = i % ROUNDS * STEP;
        const __half* from = k_from + (i < ROUNDS ? 0 : p.v - p.k);
        copy_async(stage + i / ROUNDS * TILE_BYTES + place + r * D * 2, from + r * D, r < left);
    };
    const auto advance = [&]() __attribute__((always_inline)) {
        k_from += GROUPS * BLOCK_N * D;
        left -= GROUPS * BLOCK_N;
    };

    // Where a lane points ldmatrix: its row, and its chunk with the row's swizzle. Its rows all agree modulo 8, and
    // for an even chunk c, (c + odd) ^ swizzle = c ^ (odd ^ swizzle): one base, of which `pair_at` flips two bits.
    const int lane = threadIdx.x % 32;
    const unsigned k_lane = ring + (lane % 8 + lane / 16 * 8) * D * 2 + (lane / 8 % 2 ^ lane % 8) * 16;
    const unsigned v_lane = lane % 16 * D * 2 + (lane / 16 ^ lane % 8) * 16;
    const unsigned q_lane = q_tile + threadIdx.x / 32 * 32 * D * 2 + v_lane;
    const float scale_log2 = p.scale * 1.4426950408889634f;

    Rows rows;
    unsigned query[2][KEPT > 0 ? KEPT : 1][4];
    rows.reset();
    float added[2][2] = {};

    // Scores of count * 16 keys. K is stored key by key, which is the column-major B operand as it stands.
    // Beside them go `copies` copies into stage `refill`.
    const auto scores = [&](float (*score)[2][2][4], int count, unsigned keys_at, unsigned refill, int first_copy,
                            int copies) __attribute__((always_inline)) {
#pragma unroll
        for (int s = 0; s < count; ++s) {
#pragma unroll
            for (int i = 0; i < 16; ++i) score[s][i / 8][i / 4 % 2][i % 4] = 0.0f;
        }
#pragma unroll
        for (int d = 0; d < D_STEPS; ++d) {
            unsigned fresh[2][4];
            if (d >= KEPT) {
#pragma unroll
                for (int m = 0; m < 2; ++m) load_matrices(fresh[m], pair_at(q_lane, d) + m * 16 * D * 2);
            }
#pragma unroll
            for (int s = 0; s < count; ++s) {
                unsigned key[4];
                load_matrices(key, pair_at(keys_at, d) + s * 16 * D * 2);
#pragma unroll
                for (int m = 0; m < 2; ++m) {
                    const unsigned(&a)[4] = d < KEPT ? query[m][d < KEPT ? d : 0] : fresh[m];
                    multiply_add(score[s][m][0], a, key[0], key[1]);
                    multiply_add(score[s][m][1], a, key[2], key[3]);
                }
            }
#pragma unroll
            for (int i = d * copies / D_STEPS; i < (d + 1) * copies / D_STEPS; ++i) copy(refill, first_copy + i);
        }
    };
    // Two weights as one register of an A operand: eight of them make 16 keys of both 16-row tiles.
    const auto soften = [&](const float (&score)[2][2][4], unsigned (&weight)[2][4], int i)
        __attribute__((always_inline)) {
        const int m = i / 4, n = i / 2 % 2, h = i % 2;
        const float low = exp2_fast(score[m][n][2 * h] * scale_log2 - rows.shift[m][h]);
        const float high = exp2_fast(score[m][n][2 * h + 1] * scale_log2 - rows.shift[m][h]);
        added[m][h] += low + high;
        weight[m][n * 2 + h] = pack(low, high);
    };
    const auto add_up = [&]() __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            rows.weights[i / 2][i % 2] += added[i / 2][i % 2];
            added[i / 2][i % 2] = 0.0f;
        }
    };
    // P V of 16 keys and 16 columns; ldmatrix transposes V.
    const auto collect = [&](const unsigned (&weight)[2][4], unsigned values_at, int s, int n)
        __attribute__((always_inline)) {
        unsigned value[4];
        load_matrices_transposed(value, pair_at(values_at, n / 2) + s * 16 * D * 2);
        // In this order each multiplication shares an operand with the one before.
        multiply_add(rows.out[0][n], weight[0], value[0], value[1]);
        multiply_add(rows.out[0][n + 1], weight[0], value[2], value[3]);
        multiply_add(rows.out[1][n + 1], weight[1], value[2], value[3]);
        multiply_add(rows.out[1][n], weight[1], value[0], value[1]);
    };
    // Masks the scores of 16 keys and takes the maximum of each row, base 2.
    const auto mask = [&](float (&score)[2][2][4], float (&top)[2][2], int first_key)
        __attribute__((always_inline)) {
        const int lane = thread_index() % 32;
#pragma unroll
        for (int m = 0; m < 2; ++m) {
            const int row = warp_row() + m * 16 + lane / 4;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int key = first_key + i / 4 * 8 + lane % 4 * 2 + i % 2;
                if (key >= p.keys || (p.causal && key > row + i / 2 % 2 * 8)) score[m][i / 4][i % 4] = -INFINITY;
            }
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                float most = fmaxf(fmaxf(score[m][0][2 * h], score[m][0][2 * h + 1]),
                                   fmaxf(score[m][1][2 * h], score[m][1][2 * h + 1]));
                most = fmaxf(most, __shfl_xor_sync(ALL, most, 1));
                top[m][h] = fmaxf(most, __shfl_xor_sync(ALL, most, 2)) * scale_log2;
            }
        }
    };

    {
        const int row = group * STEP + threadIdx.x / CHUNKS;  // all threads copy Q
        const int chunk = threadIdx.x % CHUNKS;
        const __half* from = p.q + ((long long)head_index(p.heads) * p.queries + first_row + row) * D + chunk * 8;
#pragma unroll
        for (int r = 0; r < BLOCK_M; r += GROUPS * STEP)
            copy_async(q_tile + chunk_at(row + r, chunk), from + r * D, first_row + row + r < p.queries);
    }

    // A block in which a weight left the range of fp16 starts again, and then looks at every maximum.
    for (int open = p.causal ? min(p.keys, warp_row() + 1) : p.keys;; open = 0) {  // keys that need no mask
#pragma unroll
        for (int s = 0; s < STAGES - 1; ++s) {
#pragma unroll
            for (int i = 0; i < 2 * ROUNDS; ++i) {
                copy(ring + 2 * s * TILE_BYTES, i);
                if (s == 0 && i == ROUNDS - 1) commit();  // Q travels with the first keys
            }
            commit();
            advance();
        }
        wait<STAGES - 1>();
        __syncthreads();  // Q, which all threads copied
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
            for (int d = 0; d < KEPT; ++d) load_matrices(query[m][d], pair_at(q_lane, d) + m * 16 * D * 2);
        }
        if (group * BLOCK_N < end) {  // the first 16 keys give the shift, while the first values travel
            float score[1][2][2][4], top[2][2];
            scores(score, 1, k_lane, 0, 0, 0);
            mask(score[0], top, group * BLOCK_N);
#pragma unroll
            for (int i = 0; i < 4; ++i) rows.shift[i / 2][i % 2] = fmaxf(rows.shift[i / 2][i % 2], top[i / 2][i % 2]);
        }

        for (int t = group; (t - group) * BLOCK_N < end; t += GROUPS) {
            wait<STAGES - 2>();
            sync_group();  // stage t is visible to all, and the one before has been read by all
            // Both groups meet equally often, since racecheck counts the barriers of a thread, whichever they are.
            if (GROUPS > 1 && t * BLOCK_N >= end) break;
            const int slot = t / GROUPS % STAGES;
            const unsigned refill = ring + (t / GROUPS + STAGES - 1) % STAGES * 2 * TILE_BYTES;
            const unsigned k_tile = k_lane + slot * 2 * TILE_BYTES;
            const unsigned v_tile = ring + v_lane + (slot * 2 + 1) * TILE_BYTES;

            if ((t + 1) * BLOCK_N > open) {
                const int last = p.causal ? min(p.keys, warp_row() + 32) : p.keys;  // this warp sees no more
#pragma unroll
                for (int i = 0; i < 2 * ROUNDS; ++i) copy(refill, i);
                commit();
                advance();
#pragma unroll 1
                for (int s = 0; s < STEPS && t * BLOCK_N + s * 16 < last; ++s) {
                    float score[1][2][2][4], top[2][2];
                    unsigned weight[2][4];
                    scores(score, 1, k_tile + s * 16 * D * 2, 0, 0, 0);
                    mask(score[0], top, t * BLOCK_N + s * 16);
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const int m = i / 2, h = i % 2;
                        if (__any_sync(ALL, top[m][h] > rows.shift[m][h] + 8.0f))
                            rows.rescale(m, h, fmaxf(rows.shift[m][h], top[m][h]));
                    }
#pragma unroll
                    for (int i = 0; i < 8; ++i) soften(score[0], weight, i);
#pragma unroll
                    for (int n = 0; n < D_TILES; n += 2) collect(weight, v_tile + s * 16 * D * 2, 0, n);
                    add_up();
                }
                continue;
            }

            // Straight-line code, in which the compiler mixes exponentials with multiplications.
#pragma unroll (D > 64 ? 1 : 4)
            for (int first = 0; first < STEPS; first += P_STEPS) {
                float score[P_STEPS][2][2][4];
                unsigned weight[2][2][4];
                constexpr int COPIES = 2 * ROUNDS * P_STEPS / STEPS;  // of the next stage, beside this pass
                constexpr int PER = (8 + D_TILES / 2 - 1) / (D_TILES / 2);
                scores(score, P_STEPS, k_tile + first * 16 * D * 2, refill, first / P_STEPS * COPIES, COPIES);
#pragma unroll
                for (int i = 0; i < 8; ++i) soften(score[0], weight[0], i);
#pragma unroll
                for (int s = 0; s < P_STEPS; ++s) {
#pragma unroll
                    for (int n = 0; n < D_TILES; n += 2) {
                        collect(weight[s % 2], v_tile + first * 16 * D * 2, s, n);
#pragma unroll
                        for (int i = n / 2 * PER; s + 1 < P_STEPS && i < (n / 2 + 1) * PER && i < 8; ++i)
                            soften(score[s + 1 < P_STEPS ? s + 1 : 0], weight[(s + 1) % 2], i);
                    }
                }
            }

            commit();
            advance();
            add_up();

            // Sums far above 1 cost range: later weights are taken relative to more. No weight exceeds the sum.
            bool grows = false;
#pragma unroll
            for (int i = 0; i < 4; ++i) grows = grows || rows.weights[i / 2][i % 2] > 4096.0f;
            if (__any_sync(ALL, grows)) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    float& sum = rows.weights[i / 2][i % 2];
                    float most = fmaxf(sum, __shfl_xor_sync(ALL, sum, 1));
                    most = fmaxf(fmaxf(most, __shfl_xor_sync(ALL, most, 2)), 1.0f);
                    rows.rescale(i / 2, i % 2, rows.shift[i / 2][i % 2] + log2_fast(most));
                    if (most > 65504.0f) sum = INFINITY;  // for good
                }
            }
        }
        if (open == 0) break;
        bool failed = false;
#pragma unroll
        for (int i = 0; i < 4; ++i) failed = failed || !(rows.weights[i / 2][i % 2] < INFINITY);
        if (!__syncthreads_or(failed)) break;
        wait<0>();
        rows.reset();
        start();
    }

    // Each lane summed its own columns; the four lanes of a row add up.
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float& sum = rows.weights[i / 2][i % 2];
        sum += __shfl_xor_sync(ALL, sum, 1);
        sum += __shfl_xor_sync(ALL, sum, 2);
    }

    const int late_lane = thread_index() % 32;
    const int warp = thread_index() / 32;
    const int block_row = warp * 32;
    // Two groups finish half of the columns each.
    const auto own = [&](int n) { return GROUPS == 1 || n / (D_TILES / 2) == group; };
    if (GROUPS == 2) {
        // Each group finishes half of the columns: it hands the other group the other half, relative to its own shift.
        float4* parts = reinterpret_cast<float4*>(memory + BLOCK_M * D * 2);
        float2* stats = reinterpret_cast<float2*>(memory + BLOCK_M * D * 2 + BLOCK_M * D * 4);
        wait<0>();
        __syncthreads();  // the rings have been read by all
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                if (late_lane % 4 == 0)
                    stats[group * BLOCK_M + block_row + m * 16 + h * 8 + late_lane / 4] =
                        make_float2(rows.shift[m][h], rows.weights[m][h]);
            }
#pragma unroll
            for (int n = 0; n < D_TILES; ++n) {
                if (!own(n))
                    parts[((warp * 2 + m) * D_TILES + n) * 32 + late_lane] =
                        make_float4(rows.out[m][n][0], rows.out[m][n][1], rows.out[m][n][2], rows.out[m][n][3]);
            }
        }
        __syncthreads();
#pragma unroll
        for (int m = 0; m < 2; ++m) {
            float ours[2], theirs[2];
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const float2 other = stats[(1 - group) * BLOCK_M + block_row + m * 16 + h * 8 + late_lane / 4];
                const float most = fmaxf(rows.shift[m][h], other.x);
                ours[h] = exp2_fast(rows.shift[m][h] - most);
                theirs[h] = exp2_fast(other.x - most);
                rows.weights[m][h] = rows.weights[m][h] * ours[h] + other.y * theirs[h];
            }
#pragma unroll
            for (int n = 0; n < D_TILES; ++n) {
                if (own(n)) {
                    const float4 part = parts[((warp * 2 + m) * D_TILES + n) * 32 + late_lane];
                    rows.out[m][n][0] = rows.out[m][n][0] * ours[0] + part.x * theirs[0];
                    rows.out[m][n][1] = rows.out[m][n][1] * ours[0] + part.y * theirs[0];
                    rows.out[m][n][2] = rows.out[m][n][2] * ours[1] + part.z * theirs[1];
                    rows.out[m][n][3] = rows.out[m][n][3] * ours[1] + part.w * theirs[1];
                }
            }
        }
    }

    // Through the rows that this warp had of Q, so that a store writes 16 bytes.
    __syncwarp();
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float inverse = __fdividef(1.0f, rows.weights[m][h]);
            const int row = block_row + m * 16 + h * 8 + late_lane / 4;
#pragma unroll
            for (int n = 0; n < D_TILES; ++n) {
                if (own(n))
                    *reinterpret_cast<unsigned*>(memory + chunk_at(row, n) + late_lane % 4 * 4) =
                        pack(rows.out[m][n][2 * h] * inverse, rows.out[m][n][2 * h + 1] * inverse);
            }
        }
    }
    __syncwarp();
    constexpr int OWN_CHUNKS = CHUNKS / GROUPS;
    constexpr int ROWS_AT_ONCE = 32 / OWN_CHUNKS;
    const int chunk = group * OWN_CHUNKS + late_lane % OWN_CHUNKS;
    uint4* to = reinterpret_cast<uint4*>(p.o + (long long)head_index(p.heads) * p.queries * D);
#pragma unroll
    for (int r = 0; r < 32; r += ROWS_AT_ONCE) {
        const int row = block_row + r + late_lane / OWN_CHUNKS;
        if (first_row + row < p.queries)
            to[(long long)(first_row + row) * CHUNKS + chunk] =
                *reinterpret_cast<const uint4*>(memory + chunk_at(row, chunk));
    }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32, 2)
    attention(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
              __half* __restrict__ o, float scale, int batch, int heads, int kv_heads, int queries, int keys, int dim,
              int causal) {
    const Problem problem{q, k, v, o, scale, heads, kv_heads, queries, keys, causal};
#if D <= 64
    if (blockDim.y == 2) {
        attend<2>(problem);
        return;
    }
#endif
    attend<1>(problem);
}
