// Each warp owns 64 x 64 of C; the next fragments are loaded while the present ones are multiplied.
// Roadmap step 4: warp tiles and fragments double-buffered in registers.
// Hypothesis: eight ldmatrix.x4 now feed 32 mma, where the rung before needed six for 16: shared memory keeps up with
// the tensor pipe. The loads of a step have the products of the step before to arrive in, across tiles too, since the
// barrier comes before the last step and not after it. A lane holds two columns of a row in each fragment: transposed
// among the four lanes of a row they are 16 bytes, so C leaves in whole sectors. Expect 1.3x or more from 1024 rows on.
// evo: task   matmul
// evo: knob   BLOCK_M in 128, 256
// evo: knob   BLOCK_N in 64, 128, 256
// evo: knob   BLOCK_K in 32, 64
// evo: knob   STAGES in 2, 3, 4, 6
// evo: require BLOCK_M * BLOCK_N <= 128 * 256
// evo: require shared <= chip.shared_per_block_optin
// evo: launch matmul grid (ceil_div(N, BLOCK_N), ceil_div(M, BLOCK_M)) block (BLOCK_M // 64 * (BLOCK_N // 64) * 32) shared (STAGES * (BLOCK_M + BLOCK_N) * BLOCK_K * 2)
#include <cuda_fp16.h>

#define BLOCK_M 128
#define BLOCK_N 128
#define BLOCK_K 32
#define STAGES 3

constexpr int WARPS_N = BLOCK_N / 64;  // a warp owns 64 x 64 of C
constexpr int THREADS = BLOCK_M / 64 * WARPS_N * 32;
constexpr int STEPS = BLOCK_K / 16;
constexpr int A_CHUNKS = BLOCK_K / 8;  // 16-byte chunks of a row
constexpr int B_CHUNKS = BLOCK_N / 8;
constexpr int A_ROWS = THREADS / A_CHUNKS;  // rows that the block copies at once
constexpr int B_ROWS = THREADS / B_CHUNKS;
constexpr int A_BYTES = BLOCK_M * BLOCK_K * 2;
constexpr int STAGE_BYTES = A_BYTES + BLOCK_K * BLOCK_N * 2;
static_assert(A_ROWS % 8 == 0 && B_ROWS % 8 == 0, "the swizzle repeats every eight rows");

// Byte offset of a 16-byte chunk in a tile with CHUNKS chunks a row. Eight consecutive rows of a chunk column fall into
// eight bank groups: rows narrower than 128 bytes share a line, so there the pattern moves on every few rows only.
template <int CHUNKS>
__device__ inline unsigned chunk_at(int row, int chunk) {
    constexpr int SPAN = CHUNKS < 8 ? CHUNKS : 8;
    return (row * CHUNKS + (chunk ^ (row / (8 / SPAN) % SPAN))) * 16;
}

// Fill one chunk with eight elements, or with zeros.
__device__ inline void copy_chunk(unsigned char* to, const __half* from, bool present) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int bytes = present ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}

// Fill one chunk with `count` elements and zeros behind them, one by one: rows whose length is no multiple of eight are
// not 16-byte aligned.
__device__ inline void copy_elements(unsigned char* to, const __half* from, int count) {
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const unsigned low = 2 * i < count ? __half_as_ushort(from[2 * i]) : 0u;
        const unsigned high = 2 * i + 1 < count ? __half_as_ushort(from[2 * i + 1]) : 0u;
        words[i] = low | high << 16;
    }
    *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
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

// Transpose 4x4 words among the four lanes of a row: word p of lane q becomes word q of lane p.
__device__ inline void transpose(unsigned (&words)[4]) {
    const int lane = threadIdx.x % 4;
#pragma unroll
    for (int p = 0; p < 4; p += 2) {
        const bool odd = lane & 1;
        const unsigned got = __shfl_xor_sync(0xffffffffu, odd ? words[p] : words[p + 1], 1);
        (odd ? words[p] : words[p + 1]) = got;
    }
#pragma unroll
    for (int p = 0; p < 2; ++p) {
        const bool high = lane & 2;
        const unsigned got = __shfl_xor_sync(0xffffffffu, high ? words[p] : words[p + 2], 2);
        (high ? words[p] : words[p + 2]) = got;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matmul(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, int m, int n, int k) {
    extern __shared__ __align__(128) unsigned char ring[];
    const unsigned ring_at = static_cast<unsigned>(__cvta_generic_to_shared(ring));
    const int lane = threadIdx.x % 32;
    const int warp_row = threadIdx.x / 32 / WARPS_N * 64;
    const int warp_col = threadIdx.x / 32 % WARPS_N * 64;
    const int tiles = (k + BLOCK_K - 1) / BLOCK_K;
    const int first_row = blockIdx.y * BLOCK_M;
    const int first_col = blockIdx.x * BLOCK_N;

    // What this thread copies of each tile: one chunk column, every A_ROWS-th or B_ROWS-th row.
    const int a_row = threadIdx.x / A_CHUNKS;
    const int a_col = threadIdx.x % A_CHUNKS * 8;
    const int b_row = threadIdx.x / B_CHUNKS;
    const int b_col = threadIdx.x % B_CHUNKS * 8;
    const __half* a_from = a + (long long)(first_row + a_row) * k + a_col;
    const __half* b_from = b + (long long)b_row * n + first_col + b_col;
    unsigned char* const a_to = ring + chunk_at<A_CHUNKS>(a_row, a_col / 8);
    unsigned char* const b_to = ring + A_BYTES + chunk_at<B_CHUNKS>(b_row, b_col / 8);
    const int a_rows = m - first_row - a_row;  // rows from this thread's first one to the end
    const int b_cols = n - first_col - b_col;
    const bool aligned = k % 8 == 0 && n % 8 == 0;

    auto fetch_stage = [&](int t) {
        if (t < tiles) {
            unsigned char* const a_stage = a_to + t % STAGES * STAGE_BYTES;
            unsigned char* const b_stage = b_to + t % STAGES * STAGE_BYTES;
            const int a_cols = k - t * BLOCK_K - a_col;
            const int b_rows = k - t * BLOCK_K - b_row;
            if (aligned) {
#pragma unroll
                for (int p = 0; p < BLOCK_M; p += A_ROWS)
                    copy_chunk(a_stage + p * A_CHUNKS * 16, a_from + (long long)p * k, p < a_rows && a_cols > 0);
#pragma unroll
                for (int p = 0; p < BLOCK_K; p += B_ROWS)
                    copy_chunk(b_stage + p * B_CHUNKS * 16, b_from + (long long)p * n, p < b_rows && b_cols > 0);
            } else {
#pragma unroll 1
                for (int p = 0; p < BLOCK_M; p += A_ROWS)
                    copy_elements(a_stage + p * A_CHUNKS * 16, a_from + (long long)p * k, p < a_rows ? a_cols : 0);
#pragma unroll 1
                for (int p = 0; p < BLOCK_K; p += B_ROWS)
                    copy_elements(b_stage + p * B_CHUNKS * 16, b_from + (long long)p * n, p < b_rows ? b_cols : 0);
            }
            a_from += BLOCK_K;
            b_from += (long long)BLOCK_K * n;
        }
        asm volatile("cp.async.commit_group;\n" ::: "memory");  // one group per stage, empty or not
    };

    // Where this lane's rows of the fragments lie in a stage: the swizzle is the same for every 16 rows.
    unsigned left_at[STEPS];
    unsigned right_at[4];
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
        left_at[step] = ring_at + chunk_at<A_CHUNKS>(warp_row + lane % 16, 2 * step + lane / 16);
#pragma unroll
    for (int j = 0; j < 4; ++j)
        right_at[j] = ring_at + A_BYTES + chunk_at<B_CHUNKS>(lane % 16, warp_col / 8 + 2 * j + lane / 16);

    unsigned left[2][4][4];
    unsigned right[2][4][4];
    auto load_step = [&](int buffer, int t, int step) {
        const unsigned stage = t % STAGES * STAGE_BYTES;
#pragma unroll
        for (int i = 0; i < 4; ++i) load_matrices(left[buffer][i], left_at[step] + stage + i * 16 * A_CHUNKS * 16);
#pragma unroll
        for (int j = 0; j < 4; ++j)
            load_matrices_transposed(right[buffer][j], right_at[j] + stage + step * 16 * B_CHUNKS * 16);
    };

#pragma unroll 1
    for (int s = 0; s < STAGES - 1; ++s) fetch_stage(s);
    asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    load_step(0, 0, 0);

    float sum[4][8][4] = {};
    for (int t = 0; t < tiles; ++t) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step == STEPS - 1) {
                // Tile t + 1 is visible to all, and all have read the last of tile t.
                asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
                __syncthreads();
            }
            // The next fragments are on their way while these are multiplied. Past the last tile nobody uses them.
            const int next = (step + 1) % STEPS;
            if (next > 0 || t + 1 < tiles) load_step((step + 1) % 2, next > 0 ? t : t + 1, next);
            if (step == 0) fetch_stage(t + STAGES - 1);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    const unsigned(&pair)[4] = right[step % 2][j / 2];
                    multiply_add(sum[i][j], left[step % 2][i], pair[j % 2 * 2], pair[j % 2 * 2 + 1]);
                }
            }
        }
    }

    // A lane holds columns 2 (lane % 4) and + 1 of rows lane / 4 and + 8 of each 16x8 piece. After the transposition it
    // holds all eight columns of one piece in four.
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int half_tile = 0; half_tile < 2; ++half_tile) {
            const int row = first_row + warp_row + i * 16 + half_tile * 8 + lane / 4;
#pragma unroll
            for (int j = 0; j < 8; j += 4) {
                unsigned words[4];
#pragma unroll
                for (int p = 0; p < 4; ++p) {
                    const float(&piece)[4] = sum[i][j + p];
                    const __half2 pair = __floats2half2_rn(piece[2 * half_tile], piece[2 * half_tile + 1]);
                    words[p] = *reinterpret_cast<const unsigned*>(&pair);
                }
                transpose(words);
                const int col = first_col + warp_col + (j + lane % 4) * 8;
                if (row >= m || col >= n) continue;
                __half* const out = c + (long long)row * n + col;
                if (n % 8 == 0) {
                    *reinterpret_cast<uint4*>(out) = make_uint4(words[0], words[1], words[2], words[3]);
                    continue;
                }
#pragma unroll 1
                for (int e = 0; e < min(8, n - col); ++e) {
                    out[e] = __ushort_as_half(words[0] & 0xffff);
#pragma unroll
                    for (int p = 0; p < 4; ++p) words[p] = __funnelshift_r(words[p], p < 3 ? words[p + 1] : 0u, 16);
                }
            }
        }
    }
}
