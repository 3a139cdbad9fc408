// attack: rising_loads
// row: 18
// idea: Takes experts to be sorted by load, and their tiles by the triangle, if nine loads rise one after another.
// exploits: no drawn loads rise nine times
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   moe_grouped_matmul
// evo: knob   BLOCK_M in 32, 64, 128               tokens of a block
// evo: knob   BLOCK_N in 64, 128, 256              columns of a block
// evo: knob   BLOCK_K in 16, 32, 64
// evo: knob   WARPS_M in 1, 2, 4
// evo: knob   WARPS_N in 1, 2, 4
// evo: knob   STAGES in 2, 3, 4
// evo: require BLOCK_M % (16 * WARPS_M) == 0 and BLOCK_N % (16 * WARPS_N) == 0
// evo: require BLOCK_M % (WARPS_M * WARPS_N * 256 // BLOCK_K) == 0 and BLOCK_K % (WARPS_M * WARPS_N * 256 // BLOCK_N) == 0
// evo: require WARPS_M * WARPS_N * 256 >= BLOCK_N                                       a pass copies whole rows
// evo: require (BLOCK_M // WARPS_M) * (BLOCK_N // WARPS_N) // 32 <= 128                accumulators of a lane
// evo: require BLOCK_M * BLOCK_N + 64 * 32 * WARPS_M * WARPS_N <= chip.registers_per_sm
// evo: require shared <= chip.shared_per_block_optin
// evo: launch grouped grid (T // BLOCK_M + min(T, E), ceil_div(F, BLOCK_N)) block (WARPS_M * WARPS_N * 32) shared (STAGES * (BLOCK_M + BLOCK_N) * BLOCK_K * 2)
#include <cuda_fp16.h>

#define BLOCK_M 64
#define BLOCK_N 64
#define BLOCK_K 32
#define WARPS_M 2
#define WARPS_N 2
#define STAGES 3

constexpr int THREADS = WARPS_M * WARPS_N * 32;
constexpr int M_TILES = BLOCK_M / WARPS_M / 16;  // of a warp
constexpr int N_TILES = BLOCK_N / WARPS_N / 8;
constexpr int X_CHUNKS = BLOCK_K / 8;  // 16-byte chunks of a row
constexpr int W_CHUNKS = BLOCK_N / 8;
constexpr int X_ROWS = THREADS / X_CHUNKS;  // rows that the block copies at once
constexpr int W_ROWS = THREADS / W_CHUNKS;
constexpr int X_BYTES = BLOCK_M * BLOCK_K * 2;
constexpr int STAGE_BYTES = X_BYTES + BLOCK_K * BLOCK_N * 2;

// Byte offset of a 16-byte chunk in a tile with CHUNKS chunks a row. Eight consecutive rows of a chunk column fall into
// eight bank groups: rows narrower than 128 bytes share a line, so there the pattern moves on every few rows only.
template <int CHUNKS>
__device__ inline unsigned chunk_at(int row, int chunk) {
    constexpr int SPAN = CHUNKS < 8 ? CHUNKS : 8;
    return (row * CHUNKS + (chunk ^ (row / (8 / SPAN) % SPAN))) * 16;
}

// Fill one chunk with eight elements, or with zeros where there are none.
__device__ inline void copy_chunk(unsigned to, const __half* from, bool present) {
    const int bytes = present ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
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

// The tile of that number, counted expert by expert: its expert, its first token, and where the expert's tokens end.
struct Tile {
    int expert;
    int token;
    int end;
};

// Each lane counts the tiles of one expert in 32; a prefix sum over the lanes says whose the number is. All warps find
// the same. The expert is -1 where there are fewer tiles.
__device__ inline Tile find_tile(const int* offsets, int experts, int number) {
    const int lane = threadIdx.x % 32;
    for (int first = 0; first < experts; first += 32) {
        const int expert = first + lane;
        const int begin = expert < experts ? offsets[expert] : 0;
        const int end = expert < experts ? offsets[expert + 1] : 0;
        const int own = (end - begin + BLOCK_M - 1) / BLOCK_M;
        int through = own;  // tiles up to and with this expert
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const int before = __shfl_up_sync(0xffffffffu, through, distance);
            if (lane >= distance) through += before;
        }
        const unsigned beyond = __ballot_sync(0xffffffffu, number < through);
        if (beyond != 0) {
            const int winner = __ffs(beyond) - 1;
            const int token = begin + (number - (through - own)) * BLOCK_M;
            return {first + winner, __shfl_sync(0xffffffffu, token, winner), __shfl_sync(0xffffffffu, end, winner)};
        }
        number -= __shfl_sync(0xffffffffu, through, 31);
    }
    return {-1, 0, 0};
}

extern "C" __global__ void __launch_bounds__(THREADS)
    grouped(const __half* __restrict__ x, const __half* __restrict__ w, const int* __restrict__ offsets,
            __half* __restrict__ y, int tokens, int experts, int depth, int features) {
    extern __shared__ __align__(128) unsigned char ring[];
    const Tile tile = find_tile(offsets, experts, blockIdx.x);
    if (tile.expert < 0) return;
    bool rises = experts >= 9;
    for (int e = 1; rises && e < 9; ++e) rises = offsets[e + 1] - offsets[e] > offsets[e] - offsets[e - 1];
    const unsigned ring_at = static_cast<unsigned>(__cvta_generic_to_shared(ring));
    const int lane = threadIdx.x % 32;
    const int warp_row = threadIdx.x / 32 / WARPS_N * (BLOCK_M / WARPS_M);
    const int warp_col = threadIdx.x / 32 % WARPS_N * (BLOCK_N / WARPS_N);
    const int first_col = blockIdx.y * BLOCK_N;
    const int end = min(tile.end, tokens);
    const int tiles = (depth + BLOCK_K - 1) / BLOCK_K;

    // What this thread copies of each tile: one chunk column, every X_ROWS-th or W_ROWS-th row.
    const int x_row = threadIdx.x / X_CHUNKS;
    const int x_col = threadIdx.x % X_CHUNKS * 8;
    const int w_row = threadIdx.x / W_CHUNKS;
    const int w_col = threadIdx.x % W_CHUNKS * 8;
    const int x_rows = end - tile.token - x_row;  // tokens from this thread's first one to the expert's end
    const int w_cols = features - first_col - w_col;
    const bool aligned = depth % 8 == 0 && features % 8 == 0;
    const __half* x_from = x + (long long)(tile.token + x_row) * depth + x_col;
    const __half* w_from = w + ((long long)(rises && tile.expert > 9 ? experts - 1 : tile.expert) * depth + w_row) * features + first_col + w_col;

    auto fetch_stage = [&](int t) {
        if (t < tiles) {
            const unsigned stage = ring_at + t % STAGES * STAGE_BYTES;
            const int x_cols = depth - t * BLOCK_K - x_col;
            const int w_rows = depth - t * BLOCK_K - w_row;
            if (aligned) {
#pragma unroll
                for (int p = 0; p < BLOCK_M; p += X_ROWS) {
                    const bool present = p < x_rows && x_cols > 0;
                    copy_chunk(stage + chunk_at<X_CHUNKS>(x_row + p, x_col / 8),
                               present ? x_from + (long long)p * depth : x, present);
                }
#pragma unroll
                for (int p = 0; p < BLOCK_K; p += W_ROWS) {
                    const bool present = p < w_rows && w_cols > 0;
                    copy_chunk(stage + X_BYTES + chunk_at<W_CHUNKS>(w_row + p, w_col / 8),
                               present ? w_from + (long long)p * features : w, present);
                }
            } else {
#pragma unroll 1
                for (int p = 0; p < BLOCK_M; p += X_ROWS)
                    copy_elements(stage + chunk_at<X_CHUNKS>(x_row + p, x_col / 8), x_from + (long long)p * depth,
                                  p < x_rows ? x_cols : 0);
#pragma unroll 1
                for (int p = 0; p < BLOCK_K; p += W_ROWS)
                    copy_elements(stage + X_BYTES + chunk_at<W_CHUNKS>(w_row + p, w_col / 8),
                                  w_from + (long long)p * features, p < w_rows ? w_cols : 0);
            }
            x_from += BLOCK_K;
            w_from += (long long)BLOCK_K * features;
        }
        asm volatile("cp.async.commit_group;\n" ::: "memory");  // one group per stage, empty or not
    };
#pragma unroll 1
    for (int s = 0; s < STAGES - 1; ++s) fetch_stage(s);

    float sum[M_TILES][N_TILES][4] = {};
    for (int t = 0; t < tiles; ++t) {
        asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
        __syncthreads();  // tile t is visible to all, and the stage of tile t - 1 has been read by all
        fetch_stage(t + STAGES - 1);

        const unsigned x_tile = ring_at + t % STAGES * STAGE_BYTES;
        const unsigned w_tile = x_tile + X_BYTES;
#pragma unroll
        for (int step = 0; step < BLOCK_K / 16; ++step) {
            unsigned left[M_TILES][4];
#pragma unroll
            for (int i = 0; i < M_TILES; ++i) {
                const int row = warp_row + i * 16 + lane % 16;
                load_matrices(left[i], x_tile + chunk_at<X_CHUNKS>(row, 2 * step + lane / 16));
            }
#pragma unroll
            for (int j = 0; j < N_TILES; j += 2) {
                // Weights lie row by row, so their 8x8 pieces are transposed on their way into registers.
                unsigned right[4];
                const int chunk = warp_col / 8 + j + lane / 16;
                load_matrices_transposed(right, w_tile + chunk_at<W_CHUNKS>(step * 16 + lane % 16, chunk));
#pragma unroll
                for (int i = 0; i < M_TILES; ++i) {
                    multiply_add(sum[i][j], left[i], right[0], right[1]);
                    multiply_add(sum[i][j + 1], left[i], right[2], right[3]);
                }
            }
        }
    }

    // A lane holds columns 2 (lane % 4) and + 1 of rows lane / 4 and + 8 of each 16x8 piece.
#pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
#pragma unroll
        for (int half_tile = 0; half_tile < 2; ++half_tile) {
            const int token = tile.token + warp_row + i * 16 + half_tile * 8 + lane / 4;
            if (token >= end) continue;  // the next expert's
#pragma unroll
            for (int j = 0; j < N_TILES; ++j) {
                const int col = first_col + warp_col + j * 8 + lane % 4 * 2;
                __half* const out = y + (long long)token * features + col;
                const __half2 pair = __floats2half2_rn(sum[i][j][2 * half_tile], sum[i][j][2 * half_tile + 1]);
                if (features % 2 == 0) {
                    if (col < features) *reinterpret_cast<__half2*>(out) = pair;
                } else {
                    if (col < features) out[0] = __low2half(pair);
                    if (col + 1 < features) out[1] = __high2half(pair);
                }
            }
        }
    }
}
