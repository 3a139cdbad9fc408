// expect: unsafe, fault=misaligned
// Takes every pixel for 16-byte aligned, whatever its number of channels.
// evo: task   conv2d
// evo: knob   BLOCK_M in 32, 64, 128               pixels of a block
// evo: knob   BLOCK_N in 32, 64, 128               filters of a block
// evo: knob   BLOCK_K in 16, 32, 64                channels of one tap
// evo: knob   WARPS_M in 1, 2, 4
// evo: knob   WARPS_N in 1, 2, 4
// evo: knob   STAGES in 2, 3, 4
// evo: require BLOCK_M % (16 * WARPS_M) == 0 and BLOCK_N % (16 * WARPS_N) == 0
// evo: require BLOCK_M % (WARPS_M * WARPS_N * 256 // BLOCK_K) == 0 and BLOCK_N % (WARPS_M * WARPS_N * 256 // BLOCK_K) == 0
// evo: require (BLOCK_M // WARPS_M) * (BLOCK_N // WARPS_N) // 32 <= 128                accumulators of a lane
// evo: require BLOCK_M * BLOCK_N + 64 * 32 * WARPS_M * WARPS_N <= chip.registers_per_sm
// evo: require shared <= chip.shared_per_block_optin
// evo: launch conv2d grid (ceil_div(N * ((H + 2 * PAD - DIL * (R - 1) - 1) // STRIDE + 1) * ((W + 2 * PAD - DIL * (S - 1) - 1) // STRIDE + 1), BLOCK_M), ceil_div(K, BLOCK_N)) block (WARPS_M * WARPS_N * 32) shared (STAGES * (BLOCK_M + BLOCK_N) * BLOCK_K * 2)
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
constexpr int CHUNKS = BLOCK_K / 8;       // 16-byte chunks of a row
constexpr int ROWS = THREADS / CHUNKS;    // rows that the block copies at once
constexpr int PIXELS = BLOCK_M / ROWS;    // rows of a tile that a thread copies one chunk of
constexpr int X_BYTES = BLOCK_M * BLOCK_K * 2;
constexpr int STAGE_BYTES = X_BYTES + BLOCK_N * BLOCK_K * 2;

// Byte offset of a 16-byte chunk in a tile. Eight consecutive rows of a chunk column fall into eight bank groups: rows
// narrower than 128 bytes share a line, so there the pattern moves on every few rows only.
__device__ inline unsigned chunk_at(int row, int chunk) {
    return (row * CHUNKS + (chunk ^ (row / (8 / CHUNKS) % CHUNKS))) * 16;
}

// Fill one chunk with eight elements, or with zeros where there are none.
__device__ inline void copy_chunk(unsigned to, const __half* from, bool present) {
    const int bytes = present ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// Fill one chunk with `count` elements and zeros behind them, one by one: pixels whose channels are no multiple of
// eight are not 16-byte aligned.
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

// acc += a (16x16) * b (16x8), fp16 operands, fp32 accumulators.
__device__ inline void multiply_add(float (&acc)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};\n"
                 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    conv2d(const __half* __restrict__ x, const __half* __restrict__ w, __half* __restrict__ y, int images, int height,
           int width, int channels, int filters, int taps_down, int taps_across, int stride, int pad, int dilation) {
    extern __shared__ __align__(128) unsigned char ring[];
    const unsigned ring_at = static_cast<unsigned>(__cvta_generic_to_shared(ring));
    const int lane = threadIdx.x % 32;
    const int warp_row = threadIdx.x / 32 / WARPS_N * (BLOCK_M / WARPS_M);
    const int warp_col = threadIdx.x / 32 % WARPS_N * (BLOCK_N / WARPS_N);
    const int out_height = (height + 2 * pad - dilation * (taps_down - 1) - 1) / stride + 1;
    const int out_width = (width + 2 * pad - dilation * (taps_across - 1) - 1) / stride + 1;
    const int pixels = images * out_height * out_width;
    const int first_pixel = blockIdx.x * BLOCK_M;
    const int first_filter = blockIdx.y * BLOCK_N;
    const int taps = taps_down * taps_across;
    const int blocks = (channels + BLOCK_K - 1) / BLOCK_K;  // of channels
    const int tiles = taps * blocks;
    const bool aligned = channels > 0;

    // Where the windows of this thread's pixels begin; a row far outside for pixels that there are not.
    const int copied_row = threadIdx.x / CHUNKS;
    const int copied_col = threadIdx.x % CHUNKS * 8;
    int image[PIXELS];
    int window_row[PIXELS];
    int window_col[PIXELS];
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
        const int pixel = first_pixel + copied_row + p * ROWS;
        image[p] = pixel / (out_height * out_width);
        window_row[p] = pixel < pixels ? pixel / out_width % out_height * stride - pad : -0x40000000;
        window_col[p] = pixel % out_width * stride - pad;
    }

    // The tile to be fetched next: a tap, and channels of it.
    int tap_row = 0;
    int tap_col = 0;
    int channel = copied_col;
    const __half* weights = w + (long long)(first_filter + copied_row) * taps * channels + copied_col;
    auto fetch_stage = [&](int t) {
        if (t < tiles) {
            const unsigned stage = ring_at + t % STAGES * STAGE_BYTES;
#pragma unroll
            for (int p = 0; p < PIXELS; ++p) {
                const int row = window_row[p] + tap_row * dilation;
                const int col = window_col[p] + tap_col * dilation;
                const bool inside = row >= 0 && row < height && col >= 0 && col < width;
                const long long at = (((long long)image[p] * height + row) * width + col) * channels + channel;
                const unsigned to = stage + chunk_at(copied_row + p * ROWS, copied_col / 8);
                if (aligned) copy_chunk(to, x + (inside ? at : 0), inside && channel < channels);
                else copy_elements(to, x + (inside ? at : 0), inside ? channels - channel : 0);
            }
#pragma unroll
            for (int p = 0; p < BLOCK_N; p += ROWS) {
                const bool present = first_filter + copied_row + p < filters && channel < channels;
                const __half* const from = present ? weights + (long long)p * taps * channels : w;
                const unsigned to = stage + X_BYTES + chunk_at(copied_row + p, copied_col / 8);
                if (aligned) copy_chunk(to, from, present);
                else copy_elements(to, from, present ? channels - channel : 0);
            }
            weights += BLOCK_K;
            channel += BLOCK_K;
            if (channel - copied_col >= channels) {  // on to the next tap
                weights += channels - (channel - copied_col);
                channel = copied_col;
                if (++tap_col == taps_across) {
                    tap_col = 0;
                    ++tap_row;
                }
            }
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
            for (int i = 0; i < M_TILES; ++i)
                load_matrices(left[i], x_tile + chunk_at(warp_row + i * 16 + lane % 16, 2 * step + lane / 16));
#pragma unroll
            for (int j = 0; j < N_TILES; j += 2) {
                // Filters are the columns, each with its channels side by side: what mma takes as `col`.
                unsigned right[4];
                const int row = warp_col + j * 8 + lane / 16 * 8 + lane % 8;
                load_matrices(right, w_tile + chunk_at(row, 2 * step + lane / 8 % 2));
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
            const int pixel = first_pixel + warp_row + i * 16 + half_tile * 8 + lane / 4;
            if (pixel >= pixels) continue;
#pragma unroll
            for (int j = 0; j < N_TILES; ++j) {
                const int filter = first_filter + warp_col + j * 8 + lane % 4 * 2;
                __half* const out = y + (long long)pixel * filters + filter;
                const __half2 pair = __floats2half2_rn(sum[i][j][2 * half_tile], sum[i][j][2 * half_tile + 1]);
                if (filters % 2 == 0) {
                    if (filter < filters) *reinterpret_cast<__half2*>(out) = pair;
                } else {
                    if (filter < filters) out[0] = __low2half(pair);
                    if (filter + 1 < filters) out[1] = __high2half(pair);
                }
            }
        }
    }
}
