// expect: unsafe, fault=uninitialised
// Refills a stage before the barrier that says all warps have read it. Usually gives the right answer.
// evo: task   attention
// evo: macro  D
// evo: knob   BLOCK_M in 16, 32, 64, 128           query rows of a block
// evo: knob   BLOCK_N in 16, 32, 64, 128           keys of one stage
// evo: knob   WARPS in 1, 2, 4, 8
// evo: knob   STAGES in 2, 3, 4
// evo: require BLOCK_M % (16 * WARPS) == 0
// evo: require BLOCK_M // (16 * WARPS) * (D // 2 + BLOCK_N // 2 + D // 4) <= 192   output, scores and Q in registers
// evo: require shared <= chip.shared_per_block_optin
// evo: launch attention grid (ceil_div(SQ, BLOCK_M), HQ, B) block (WARPS * 32) shared ((BLOCK_M + STAGES * 2 * BLOCK_N) * D * 2)
#include <cuda_fp16.h>

#define BLOCK_M 64
#define BLOCK_N 64
#define WARPS 4
#define STAGES 2

constexpr int THREADS = WARPS * 32;
constexpr int CHUNKS = D / 8;                      // 16-byte chunks of a row
constexpr int M_TILES = BLOCK_M / (16 * WARPS);    // 16-row tiles of a warp
constexpr int N_TILES = BLOCK_N / 8;               // 8-key tiles of a stage
constexpr int D_STEPS = D / 16;                    // k-steps of Q K^T
constexpr int D_TILES = D / 8;                     // 8-column tiles of the output
constexpr int STAGE_BYTES = 2 * BLOCK_N * D * 2;
static_assert(D % 64 == 0, "the swizzle permutes eight chunks");

// Byte offset of a 16-byte chunk in a swizzled tile.
__device__ inline unsigned chunk_at(int row, int chunk) { return (row * CHUNKS + (chunk ^ (row & 7))) * 16; }

__device__ inline void copy_async(unsigned to, const __half* from, bool present) {
    const int bytes = present ? 16 : 0;  // the rest of the 16 bytes is zero-filled
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

__device__ inline void commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

// Copy ROWS rows from `first` on, those past `end` as zeros. `source` points at row 0. A thread keeps its chunk column:
// all but the row test is one address plus constants. An address past the end is formed but never read.
template <int ROWS>
__device__ inline void fetch(unsigned tile, const __half* source, int first, int end) {
    constexpr int STEP = THREADS / CHUNKS;  // rows that the block copies at a time
    const int top = threadIdx.x / CHUNKS;
    const int chunk = threadIdx.x % CHUNKS;
    const __half* from = source + (long long)(first + top) * D + chunk * 8;
#pragma unroll
    for (int r = 0; r < ROWS; r += STEP) {
        if (STEP <= ROWS || top < ROWS) {
            copy_async(tile + chunk_at(top + r, chunk), from + r * D, first + top + r < end);
        }
    }
}

__device__ inline void load_matrices(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

__device__ inline void load_matrices_transposed(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

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

__device__ inline unsigned pack(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
              __half* __restrict__ o, float scale, int batch, int heads, int kv_heads, int queries, int keys, int dim,
              int causal) {
    extern __shared__ __align__(128) unsigned char memory[];
    const unsigned q_tile = static_cast<unsigned>(__cvta_generic_to_shared(memory));
    const unsigned ring = q_tile + BLOCK_M * D * 2;

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int head = blockIdx.y;
    const int item = blockIdx.z;
    const int first_row = blockIdx.x * BLOCK_M;
    const int kv_head = head / (heads / kv_heads);
    const long long head_at = (long long)(item * heads + head) * queries * D;
    const long long kv_at = (long long)(item * kv_heads + kv_head) * keys * D;
    const __half* k_head = k + kv_at;
    const __half* v_head = v + kv_at;

    // Under the causal mask the block needs no key past its last row.
    const int end = causal ? min(keys, min(first_row + BLOCK_M, queries)) : keys;
    const int tiles = (end + BLOCK_N - 1) / BLOCK_N;

    fetch<BLOCK_M>(q_tile, q + head_at, first_row, queries);
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < tiles) {
            fetch<BLOCK_N>(ring + s * STAGE_BYTES, k_head, s * BLOCK_N, end);
            fetch<BLOCK_N>(ring + s * STAGE_BYTES + BLOCK_N * D * 2, v_head, s * BLOCK_N, end);
        }
        commit();  // one group per stage, empty or not; Q travels with the first
    }

    // Of a 16x8 accumulator tile a lane holds columns 2 (lane % 4) and + 1 of rows lane / 4 (c0, c1) and + 8 (c2, c3).
    const int warp_row = warp * M_TILES * 16;
    unsigned query[M_TILES][D_STEPS][4];
    float out[M_TILES][D_TILES][4];
    float row_max[M_TILES][2];
    float weights[M_TILES][2];
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
        for (int n = 0; n < D_TILES; ++n) out[m][n][0] = out[m][n][1] = out[m][n][2] = out[m][n][3] = 0.0f;
        row_max[m][0] = row_max[m][1] = -INFINITY;
        weights[m][0] = weights[m][1] = 0.0f;
    }
    // Where a lane points ldmatrix: its row, and its chunk with the row's swizzle. Its rows all agree modulo 8, and
    // for an even chunk c, (c + odd) ^ swizzle = c ^ (odd ^ swizzle). So both parts are constant over the whole loop.
    const unsigned k_row = (lane % 8 + lane / 16 * 8) * D * 2;
    const unsigned k_flip = (lane / 8 % 2 ^ lane % 8) * 16;
    const unsigned v_row = lane % 16 * D * 2;
    const unsigned v_flip = (lane / 16 ^ lane % 8) * 16;
    const float scale_log2 = scale * 1.4426950408889634f;

    for (int t = 0; t < tiles; ++t) {
        if (t + STAGES - 1 < tiles) {
            const unsigned refill = ring + (t + STAGES - 1) % STAGES * STAGE_BYTES;
            fetch<BLOCK_N>(refill, k_head, (t + STAGES - 1) * BLOCK_N, end);
            fetch<BLOCK_N>(refill + BLOCK_N * D * 2, v_head, (t + STAGES - 1) * BLOCK_N, end);
        }
        commit();
        asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 1) : "memory");
        __syncthreads();

        if (t == 0) {
#pragma unroll
            for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
                for (int d = 0; d < D_STEPS; ++d) {
                    const int row = warp_row + m * 16 + lane % 16;
                    load_matrices(query[m][d], q_tile + chunk_at(row, 2 * d + lane / 16));
                }
            }
        }

        const unsigned stage = ring + t % STAGES * STAGE_BYTES;
        const unsigned k_tile = stage + k_row;
        const unsigned v_tile = stage + BLOCK_N * D * 2 + v_row;

        // Scores: K is stored key by key, which is the column-major B operand as it stands.
        float score[M_TILES][N_TILES][4] = {};
#pragma unroll
        for (int d = 0; d < D_STEPS; ++d) {
#pragma unroll
            for (int n = 0; n < N_TILES; n += 2) {
                unsigned key[4];
                load_matrices(key, k_tile + (d * 32 ^ k_flip) + n * 8 * D * 2);
#pragma unroll
                for (int m = 0; m < M_TILES; ++m) {
                    multiply_add(score[m][n], query[m][d], key[0], key[1]);
                    multiply_add(score[m][n + 1], query[m][d], key[2], key[3]);
                }
            }
        }

#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            const int row = first_row + warp_row + m * 16 + lane / 4;
            const int top_row = first_row + warp_row + m * 16;
            const int past = (t + 1) * BLOCK_N;
            if (past > keys || (causal && past > top_row + 1)) {  // only tiles on an edge pay for the mask
#pragma unroll
                for (int n = 0; n < N_TILES; ++n) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const int key = t * BLOCK_N + n * 8 + lane % 4 * 2 + i % 2;
                        if (key >= keys || (causal && key > row + i / 2 * 8)) score[m][n][i] = -INFINITY;
                    }
                }
            }

#pragma unroll
            for (int half_tile = 0; half_tile < 2; ++half_tile) {
                float new_max = row_max[m][half_tile];
#pragma unroll
                for (int n = 0; n < N_TILES; ++n)
                    new_max = fmaxf(new_max, fmaxf(score[m][n][2 * half_tile], score[m][n][2 * half_tile + 1]));
                new_max = fmaxf(new_max, __shfl_xor_sync(0xffffffffu, new_max, 1));
                new_max = fmaxf(new_max, __shfl_xor_sync(0xffffffffu, new_max, 2));

                // Key 0 is visible to every row, so new_max is finite from the first tile on.
                const float shift = new_max * scale_log2;
                const float keep = exp2_fast(row_max[m][half_tile] * scale_log2 - shift);
                row_max[m][half_tile] = new_max;
                float added = 0.0f;
#pragma unroll
                for (int n = 0; n < N_TILES; ++n) {
#pragma unroll
                    for (int i = 2 * half_tile; i < 2 * half_tile + 2; ++i) {
                        score[m][n][i] = exp2_fast(score[m][n][i] * scale_log2 - shift);
                        added += score[m][n][i];
                    }
                }
                weights[m][half_tile] = weights[m][half_tile] * keep + added;
#pragma unroll
                for (int n = 0; n < D_TILES; ++n) {
                    out[m][n][2 * half_tile] *= keep;
                    out[m][n][2 * half_tile + 1] *= keep;
                }
            }
        }

        // Two neighbouring accumulator tiles, rounded to fp16, are an A operand as they stand; ldmatrix transposes V.
#pragma unroll
        for (int s = 0; s < N_TILES / 2; ++s) {
            unsigned weight[M_TILES][4];
#pragma unroll
            for (int m = 0; m < M_TILES; ++m) {
                weight[m][0] = pack(score[m][2 * s][0], score[m][2 * s][1]);
                weight[m][1] = pack(score[m][2 * s][2], score[m][2 * s][3]);
                weight[m][2] = pack(score[m][2 * s + 1][0], score[m][2 * s + 1][1]);
                weight[m][3] = pack(score[m][2 * s + 1][2], score[m][2 * s + 1][3]);
            }
#pragma unroll
            for (int n = 0; n < D_TILES; n += 2) {
                unsigned value[4];
                load_matrices_transposed(value, v_tile + (n * 16 ^ v_flip) + s * 16 * D * 2);
#pragma unroll
                for (int m = 0; m < M_TILES; ++m) {
                    multiply_add(out[m][n], weight[m], value[0], value[1]);
                    multiply_add(out[m][n + 1], weight[m], value[2], value[3]);
                }
            }
        }
    }

#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
        for (int half_tile = 0; half_tile < 2; ++half_tile) {
            // Each lane summed its own columns; the four lanes of a row add up.
            float total = weights[m][half_tile];
            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            const float inverse = 1.0f / total;
            const int row = first_row + warp_row + m * 16 + half_tile * 8 + lane / 4;
            if (row < queries) {
                unsigned* o_row = reinterpret_cast<unsigned*>(o + head_at + (long long)row * D);
#pragma unroll
                for (int n = 0; n < D_TILES; ++n)
                    o_row[n * 4 + lane % 4] =
                        pack(out[m][n][2 * half_tile] * inverse, out[m][n][2 * half_tile + 1] * inverse);
            }
        }
    }
}
