// Each size of matrix gets the largest tile that still keeps most SMs at work: four tiles in one file.
// Roadmap step 9: small problems.
// Hypothesis: a tile of 128 x 256 needs the fewest bytes per multiplication, but leaves 8 blocks at 512 x 512 and 64 at
// 8192 x 256, and an SM without a block does nothing. Half the tile costs more traffic and twice the SMs. The launch
// picks, and says through the block's second dimension what it picked. Expect the best of all rungs at every size.
// evo: task   matmul
// evo: knob   FILL in 40, 60, 80, 90, 100, 150, 200   blocks in percent of the SMs that a tile has to make
// evo: knob   BLOCK_K in 32, 64
// evo: knob   STAGES in 2, 3, 4, 6
// evo: knob   GROUP in 1, 2, 4, 8, 16, 32          rows of blocks that are walked column by column
// evo: require shared <= chip.shared_per_block_optin
// evo: launch matmul grid (ceil_div(N, 256) * ceil_div(M, 128) if ceil_div(N, 256) * ceil_div(M, 128) * 100 >= FILL * chip.sms else ceil_div(N, 128) * ceil_div(M, 128) if ceil_div(N, 128) * ceil_div(M, 128) * 100 >= FILL * chip.sms else ceil_div(N, 128) * ceil_div(M, 64) if ceil_div(N, 128) * ceil_div(M, 64) * 100 >= FILL * chip.sms else ceil_div(N, 64) * ceil_div(M, 64)) block (256 if ceil_div(N, 256) * ceil_div(M, 128) * 100 >= FILL * chip.sms else 128 if ceil_div(N, 128) * ceil_div(M, 128) * 100 >= FILL * chip.sms else 64 if ceil_div(N, 128) * ceil_div(M, 64) * 100 >= FILL * chip.sms else 32, 1 if ceil_div(N, 128) * ceil_div(M, 128) * 100 >= FILL * chip.sms else 2 if ceil_div(N, 128) * ceil_div(M, 64) * 100 >= FILL * chip.sms else 4) shared (STAGES * BLOCK_K * 2 * (384 if ceil_div(N, 256) * ceil_div(M, 128) * 100 >= FILL * chip.sms else 256 if ceil_div(N, 128) * ceil_div(M, 128) * 100 >= FILL * chip.sms else 192 if ceil_div(N, 128) * ceil_div(M, 64) * 100 >= FILL * chip.sms else 128))
#include <cuda_fp16.h>

#define FILL 90
#define BLOCK_K 32
#define STAGES 4
#define GROUP 8

constexpr int STEPS = BLOCK_K / 16;
constexpr int A_CHUNKS = BLOCK_K / 8;  // 16-byte chunks of a row

// Byte offset of a 16-byte chunk in a tile with CHUNKS chunks a row. Eight consecutive rows of a chunk column fall into
// eight bank groups: rows narrower than 128 bytes share a line, so there the pattern moves on every few rows only.
template <int CHUNKS>
__device__ inline unsigned chunk_at(int row, int chunk) {
    constexpr int SPAN = CHUNKS < 8 ? CHUNKS : 8;
    return (row * CHUNKS + (chunk ^ (row / (8 / SPAN) % SPAN))) * 16;
}

// Fill one chunk with eight elements, or with zeros where there are none.
__device__ inline void copy_chunk(unsigned to, const void* from, bool present) {
    const int bytes = present ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

__device__ inline void copy_chunk(unsigned to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(to), "l"(from) : "memory");
}

// Fill one chunk with `count` elements and zeros behind them, one by one: rows whose length is no multiple of eight are
// not 16-byte aligned.
__device__ inline void copy_elements(unsigned to, const __half* from, int count) {
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const unsigned low = 2 * i < count ? __half_as_ushort(from[2 * i]) : 0u;
        const unsigned high = 2 * i + 1 < count ? __half_as_ushort(from[2 * i + 1]) : 0u;
        words[i] = low | high << 16;
    }
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n"
                 ::"r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]) : "memory");
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

// One tile of BLOCK_M x BLOCK_N of C, by warps that own WARP_M x WARP_N each.
template <int BLOCK_M, int BLOCK_N, int WARP_M, int WARP_N>
__device__ __forceinline__ void multiply(const __half* __restrict__ a, const __half* __restrict__ b,
                                         __half* __restrict__ c, int m, int n, int k) {
    constexpr int WARPS_N = BLOCK_N / WARP_N;
    constexpr int THREADS = BLOCK_M / WARP_M * WARPS_N * 32;
    constexpr int B_CHUNKS = BLOCK_N / 8;
    constexpr int A_ROWS = THREADS / A_CHUNKS;  // rows that the block copies at once
    constexpr int B_ROWS = THREADS / B_CHUNKS;
    constexpr int A_BYTES = BLOCK_M * BLOCK_K * 2;
    constexpr int STAGE_BYTES = A_BYTES + BLOCK_K * BLOCK_N * 2;
    constexpr int M_TILES = WARP_M / 16;
    constexpr int N_TILES = WARP_N / 8;
    static_assert(A_ROWS % 8 == 0 && B_ROWS % 8 == 0, "the swizzle repeats every eight rows");
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    extern __shared__ __align__(128) unsigned char ring[];
    const unsigned ring_at = static_cast<unsigned>(__cvta_generic_to_shared(ring));
    const int lane = thread % 32;
    const int warp_row = thread / 32 / WARPS_N * WARP_M;
    const int warp_col = thread / 32 % WARPS_N * WARP_N;
    const int tiles = (k + BLOCK_K - 1) / BLOCK_K;

    // GROUP rows of blocks at a time, column by column.
    const int block_rows = (m + BLOCK_M - 1) / BLOCK_M;
    const int group_blocks = (n + BLOCK_N - 1) / BLOCK_N * GROUP;
    const int group_row = blockIdx.x / group_blocks * GROUP;
    const int group_rows = min(GROUP, block_rows - group_row);
    const int first_row = (group_row + blockIdx.x % group_blocks % group_rows) * BLOCK_M;
    const int first_col = blockIdx.x % group_blocks / group_rows * BLOCK_N;

    // What this thread copies of each tile: one chunk column, every A_ROWS-th or B_ROWS-th row.
    const int a_row = thread / A_CHUNKS;
    const int a_col = thread % A_CHUNKS * 8;
    const int b_row = thread / B_CHUNKS;
    const int b_col = thread % B_CHUNKS * 8;
    const unsigned a_to = ring_at + chunk_at<A_CHUNKS>(a_row, a_col / 8);
    const unsigned b_to = ring_at + A_BYTES + chunk_at<B_CHUNKS>(b_row, b_col / 8);
    const int a_rows = m - first_row - a_row;  // rows from this thread's first one to the end
    const int b_cols = n - first_col - b_col;
    const bool aligned = k % 8 == 0 && n % 8 == 0;
    const bool interior = aligned && first_row + BLOCK_M <= m && first_col + BLOCK_N <= n;
    const __half* a_from = a + (long long)(first_row + a_row) * k + a_col;
    const __half* b_from = b + (long long)b_row * n + first_col + b_col;

    // Instructions beside the mma cost tensor time, so a tile inside the matrices is copied without questions.
    // Past the last tile there are zeros, which nobody adds.
    auto fetch = [&](int t, unsigned stage) {
        const int a_cols = k - t * BLOCK_K - a_col;
        const int b_rows = k - t * BLOCK_K - b_row;
        if (interior && (t + 1) * BLOCK_K <= k) {
#pragma unroll
            for (int p = 0; p < BLOCK_M; p += A_ROWS)
                copy_chunk(a_to + stage + p * A_CHUNKS * 16, a_from + (long long)p * k);
#pragma unroll
            for (int p = 0; p < BLOCK_K; p += B_ROWS)
                copy_chunk(b_to + stage + p * B_CHUNKS * 16, b_from + (long long)p * n);
        } else if (aligned) {
#pragma unroll
            for (int p = 0; p < BLOCK_M; p += A_ROWS) {
                const bool present = p < a_rows && a_cols > 0;
                copy_chunk(a_to + stage + p * A_CHUNKS * 16, present ? a_from + (long long)p * k : a, present);
            }
#pragma unroll
            for (int p = 0; p < BLOCK_K; p += B_ROWS) {
                const bool present = p < b_rows && b_cols > 0;
                copy_chunk(b_to + stage + p * B_CHUNKS * 16, present ? b_from + (long long)p * n : b, present);
            }
        } else {
#pragma unroll 1
            for (int p = 0; p < BLOCK_M; p += A_ROWS)
                copy_elements(a_to + stage + p * A_CHUNKS * 16, a_from + (long long)p * k, p < a_rows ? a_cols : 0);
#pragma unroll 1
            for (int p = 0; p < BLOCK_K; p += B_ROWS)
                copy_elements(b_to + stage + p * B_CHUNKS * 16, b_from + (long long)p * n, p < b_rows ? b_cols : 0);
        }
        a_from += BLOCK_K;
        b_from += (long long)BLOCK_K * n;
        asm volatile("cp.async.commit_group;\n" ::: "memory");
    };
    auto following = [](unsigned stage) { return stage == (STAGES - 1) * STAGE_BYTES ? 0u : stage + STAGE_BYTES; };

    // Where this lane's rows of the fragments lie in a stage: the swizzle is the same for every 16 rows.
    unsigned left_at[STEPS];
    unsigned right_at[N_TILES / 2];
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
        left_at[step] = ring_at + chunk_at<A_CHUNKS>(warp_row + lane % 16, 2 * step + lane / 16);
#pragma unroll
    for (int j = 0; j < N_TILES / 2; ++j)
        right_at[j] = ring_at + A_BYTES + chunk_at<B_CHUNKS>(lane % 16, warp_col / 8 + 2 * j + lane / 16);

    unsigned left[2][M_TILES][4];
    unsigned right[2][N_TILES / 2][4];
    auto load_step = [&](int buffer, unsigned stage, int step) {
#pragma unroll
        for (int i = 0; i < M_TILES; ++i) load_matrices(left[buffer][i], left_at[step] + stage + i * 16 * A_CHUNKS * 16);
#pragma unroll
        for (int j = 0; j < N_TILES / 2; ++j)
            load_matrices_transposed(right[buffer][j], right_at[j] + stage + step * 16 * B_CHUNKS * 16);
    };

#pragma unroll 1
    for (int t = 0; t < STAGES - 1; ++t) fetch(t, t * STAGE_BYTES);
    unsigned reading = 0;
    unsigned filling = (STAGES - 1) * STAGE_BYTES;
    asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    load_step(0, reading, 0);

    float sum[M_TILES][N_TILES][4] = {};
    for (int t = 0; t < tiles; ++t) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step == STEPS - 1) {
                // Tile t + 1 is visible to all, and all have read the last of tile t.
                asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
                __syncthreads();
                reading = following(reading);
            }
            // The next fragments are on their way while these are multiplied.
            load_step((step + 1) % 2, reading, (step + 1) % STEPS);
            if (step == 0) {
                fetch(t + STAGES - 1, filling);
                filling = following(filling);
            }
#pragma unroll
            for (int at = 0; at < M_TILES * N_TILES; ++at) {
                const int j = at / M_TILES;
                const int i = j % 2 == 0 ? at % M_TILES : M_TILES - 1 - at % M_TILES;  // each mma shares a fragment with the last
                const unsigned(&pair)[4] = right[step % 2][j / 2];
                multiply_add(sum[i][j], left[step % 2][i], pair[j % 2 * 2], pair[j % 2 * 2 + 1]);
            }
        }
    }
    asm volatile("cp.async.wait_group 0;\n" ::: "memory");

    // A lane holds columns 2 (lane % 4) and + 1 of rows lane / 4 and + 8 of each 16x8 piece. After the transposition it
    // holds all eight columns of one piece in four.
#pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
#pragma unroll
        for (int half_tile = 0; half_tile < 2; ++half_tile) {
            const int row = first_row + warp_row + i * 16 + half_tile * 8 + lane / 4;
#pragma unroll
            for (int j = 0; j < N_TILES; j += 4) {
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

extern "C" __global__ void __launch_bounds__(256)
    matmul(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, int m, int n, int k) {
    if (blockDim.y == 4)
        multiply<64, 64, 32, 32>(a, b, c, m, n, k);
    else if (blockDim.y == 2)
        multiply<64, 128, 32, 64>(a, b, c, m, n, k);
    else if (blockDim.x == 128)
        multiply<128, 128, 64, 64>(a, b, c, m, n, k);
    else
        multiply<128, 256, 64, 64>(a, b, c, m, n, k);
}
