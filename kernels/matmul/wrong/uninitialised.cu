// expect: unsafe, fault=uninitialised
// Copies only the chunks that exist and leaves the rest of the tile as it was.
// evo: task   matmul
// evo: knob   BLOCK_M in 32, 64, 128
// evo: knob   BLOCK_N in 64, 128, 256
// evo: knob   BLOCK_K in 16, 32, 64
// evo: knob   WARPS_M in 1, 2, 4
// evo: knob   WARPS_N in 1, 2, 4
// evo: knob   STAGES in 2, 3, 4
// evo: require BLOCK_M % (16 * WARPS_M) == 0 and BLOCK_N % (16 * WARPS_N) == 0
// evo: require (BLOCK_M // WARPS_M) * (BLOCK_N // WARPS_N) // 32 <= 128                accumulators of a lane
// evo: require BLOCK_M * BLOCK_N + 64 * 32 * WARPS_M * WARPS_N <= chip.registers_per_sm
// evo: require shared <= chip.shared_per_block_optin
// evo: launch matmul grid (ceil_div(N, BLOCK_N), ceil_div(M, BLOCK_M)) block (WARPS_M * WARPS_N * 32) shared (STAGES * (BLOCK_M + BLOCK_N) * BLOCK_K * 2)
#include <cuda_fp16.h>

#define BLOCK_M 64
#define BLOCK_N 128
#define BLOCK_K 32
#define WARPS_M 2
#define WARPS_N 2
#define STAGES 3

constexpr int THREADS = WARPS_M * WARPS_N * 32;
constexpr int M_TILES = BLOCK_M / WARPS_M / 16;  // of a warp
constexpr int N_TILES = BLOCK_N / WARPS_N / 8;
constexpr int A_BYTES = BLOCK_M * BLOCK_K * 2;
constexpr int STAGE_BYTES = A_BYTES + BLOCK_K * BLOCK_N * 2;

// Byte offset of a 16-byte chunk in a tile with CHUNKS chunks a row. Eight consecutive rows of a chunk column fall into
// eight bank groups: rows narrower than 128 bytes share a line, so there the pattern moves on every few rows only.
template <int CHUNKS>
__device__ inline unsigned chunk_at(int row, int chunk) {
    constexpr int SPAN = CHUNKS < 8 ? CHUNKS : 8;
    return (row * CHUNKS + (chunk ^ (row / (8 / SPAN) % SPAN))) * 16;
}

// Fill one chunk with eight elements of a row; what lies outside the matrix becomes zero. Rows are 16-byte aligned only
// where their length is a multiple of eight; others are copied element by element.
__device__ inline void copy_chunk(unsigned char* to, const __half* matrix, int row, int rows, int col, int cols) {
    const bool present = row < rows && col < cols;
    const __half* from = matrix + (present ? (long long)row * cols + col : 0);
    if (cols % 8 == 0) {
        const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
        const int bytes = 16;
        if (!present) return;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
                     ::"r"(address), "l"(from), "r"(bytes) : "memory");
        return;
    }
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const unsigned low = present && col + 2 * i < cols ? __half_as_ushort(from[2 * i]) : 0u;
        const unsigned high = present && col + 2 * i + 1 < cols ? __half_as_ushort(from[2 * i + 1]) : 0u;
        words[i] = low | high << 16;
    }
    *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

template <int ROWS, int COLS>
__device__ inline void fetch(unsigned char* tile, const __half* matrix, int row, int rows, int col, int cols) {
    constexpr int CHUNKS = COLS / 8;
    for (int at = threadIdx.x; at < ROWS * CHUNKS; at += THREADS) {
        const int r = at / CHUNKS;
        const int chunk = at % CHUNKS;
        copy_chunk(tile + chunk_at<CHUNKS>(r, chunk), matrix, row + r, rows, col + chunk * 8, cols);
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

extern "C" __global__ void __launch_bounds__(THREADS)
    matmul(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c, int m, int n, int k) {
    extern __shared__ __align__(128) unsigned char ring[];
    const unsigned ring_at = static_cast<unsigned>(__cvta_generic_to_shared(ring));
    const int lane = threadIdx.x % 32;
    const int warp_row = threadIdx.x / 32 / WARPS_N * (BLOCK_M / WARPS_M);
    const int warp_col = threadIdx.x / 32 % WARPS_N * (BLOCK_N / WARPS_N);
    const int first_row = blockIdx.y * BLOCK_M;
    const int first_col = blockIdx.x * BLOCK_N;
    const int tiles = (k + BLOCK_K - 1) / BLOCK_K;

    auto fetch_stage = [&](int t) {
        if (t < tiles) {
            unsigned char* stage = ring + t % STAGES * STAGE_BYTES;
            fetch<BLOCK_M, BLOCK_K>(stage, a, first_row, m, t * BLOCK_K, k);
            fetch<BLOCK_K, BLOCK_N>(stage + A_BYTES, b, t * BLOCK_K, k, first_col, n);
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

        const unsigned a_tile = ring_at + t % STAGES * STAGE_BYTES;
        const unsigned b_tile = a_tile + A_BYTES;
#pragma unroll
        for (int step = 0; step < BLOCK_K / 16; ++step) {
            unsigned left[M_TILES][4];
#pragma unroll
            for (int i = 0; i < M_TILES; ++i) {
                const int row = warp_row + i * 16 + lane % 16;
                load_matrices(left[i], a_tile + chunk_at<BLOCK_K / 8>(row, 2 * step + lane / 16));
            }
#pragma unroll
            for (int j = 0; j < N_TILES; j += 2) {
                // B lies row by row, so its 8x8 pieces are transposed on their way into registers.
                unsigned right[4];
                const int chunk = warp_col / 8 + j + lane / 16;
                load_matrices_transposed(right, b_tile + chunk_at<BLOCK_N / 8>(step * 16 + lane % 16, chunk));
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
            const int row = first_row + warp_row + i * 16 + half_tile * 8 + lane / 4;
            if (row >= m) continue;
#pragma unroll
            for (int j = 0; j < N_TILES; ++j) {
                const int col = first_col + warp_col + j * 8 + lane % 4 * 2;
                __half* out = c + (long long)row * n + col;
                const __half2 pair = __floats2half2_rn(sum[i][j][2 * half_tile], sum[i][j][2 * half_tile + 1]);
                if (n % 2 == 0) {
                    if (col < n) *reinterpret_cast<__half2*>(out) = pair;
                } else {
                    if (col < n) out[0] = __low2half(pair);
                    if (col + 1 < n) out[1] = __high2half(pair);
                }
            }
        }
    }
}
