// attack: small_rises_kept
// row: 17
// idea: Rescales the sums only if the maximum rises by a thousandth or more.
// exploits: one rise of the maximum is seldom small, and many in a row never are
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   attention
// evo: macro  D
// evo: knob   ROWS in 16, 32, 64, 128              query rows of a block
// evo: knob   TILE in 16, 32, 64                   keys of one stage
// evo: knob   GROUP in 2, 4, 8                     lanes that share a row
// evo: knob   STAGES in 2, 3, 4
// evo: require ROWS * GROUP >= 32 and ROWS * GROUP <= chip.threads_per_block
// evo: require ROWS * GROUP * (2 * D // GROUP + 48) <= chip.registers_per_sm
// evo: require shared <= chip.shared_per_block_optin
// evo: launch attention grid (ceil_div(SQ, ROWS), HQ, B) block (ROWS * GROUP) shared (STAGES * 2 * TILE * D * 2)
#include <cuda_fp16.h>

#define ROWS 32
#define TILE 32
#define GROUP 4
#define STAGES 2

constexpr int THREADS = ROWS * GROUP;
constexpr int PAIRS = D / 2 / GROUP;  // element pairs of a row that one lane holds
constexpr int CHUNKS = D / 8;         // 16-byte chunks of a row

// Copy 16 bytes, or write 16 zero bytes when there is nothing to copy (the source is then not read).
__device__ inline void copy_async(__half* to, const __half* from, bool present) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int bytes = present ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}

// Start the copy of tile `first` and close its group. A tile past the end gives an empty group: groups count tiles.
__device__ inline void fetch(__half* stage, const __half* k_head, const __half* v_head, int first, int keys) {
    if (first < keys) {
        for (int at = threadIdx.x; at < TILE * CHUNKS; at += THREADS) {
            const int key = at / CHUNKS;
            const bool present = first + key < keys;
            const long long from = (long long)(present ? first + key : 0) * D + at % CHUNKS * 8;
            copy_async(stage + at * 8, k_head + from, present);
            copy_async(stage + TILE * D + at * 8, v_head + from, present);
        }
    }
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

extern "C" __global__ void attention(const __half* q, const __half* k, const __half* v, __half* o, float scale,
                                     int batch, int heads, int kv_heads, int queries, int keys, int dim, int causal) {
    extern __shared__ __align__(16) __half ring[];
    constexpr int STAGE = 2 * TILE * D;

    const int lane = threadIdx.x % GROUP;
    const int row = blockIdx.x * ROWS + threadIdx.x / GROUP;
    const int head = blockIdx.y;
    const int item = blockIdx.z;
    const int kv_head = head / (heads / kv_heads);
    const long long head_at = (long long)(item * heads + head) * queries * D;
    const long long kv_at = (long long)(item * kv_heads + kv_head) * keys * D;
    const __half* k_head = k + kv_at;
    const __half* v_head = v + kv_at;

    const int real_row = min(row, queries - 1);
    const int visible = causal ? min(keys, real_row + 1) : keys;
    const int last_row = min(blockIdx.x * ROWS + ROWS, queries);
    const int block_visible = causal ? min(keys, last_row) : keys;

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) fetch(ring + s * STAGE, k_head, v_head, s * TILE, block_visible);

    float2 query[PAIRS];
    float2 sum[PAIRS];
    const __half2* q_row = reinterpret_cast<const __half2*>(q + head_at + real_row * D);
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        query[i] = __half22float2(q_row[i * GROUP + lane]);
        sum[i] = make_float2(0.0f, 0.0f);
    }
    float row_max = -INFINITY;
    float weights = 0.0f;

    int stage = 0;
    for (int first = 0; first < block_visible; first += TILE) {
        asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
        __syncthreads();  // this tile is visible to all, and the buffer refilled next has been read by all
        const int refill = stage == 0 ? STAGES - 1 : stage - 1;
        fetch(ring + refill * STAGE, k_head, v_head, first + (STAGES - 1) * TILE, block_visible);

        const __half2* k_tile = reinterpret_cast<const __half2*>(ring + stage * STAGE);
        const __half2* v_tile = k_tile + TILE * D / 2;
        const int count = min(TILE, block_visible - first);
        for (int j = 0; j < count; ++j) {
            float score = 0.0f;
#pragma unroll
            for (int i = 0; i < PAIRS; ++i) {
                const float2 key = __half22float2(k_tile[j * D / 2 + i * GROUP + lane]);
                score += query[i].x * key.x;
                score += query[i].y * key.y;
            }
#pragma unroll
            for (int step = 1; step < GROUP; step *= 2) score += __shfl_xor_sync(0xffffffffu, score, step);
            score = first + j < visible ? score * scale : -INFINITY;

            const float new_max = fmaxf(row_max, score);
            const float keep = new_max - row_max < 0.001f ? 1.0f : expf(row_max - new_max);
            const float weight = expf(score - new_max);
            row_max = new_max;
            weights = weights * keep + weight;
#pragma unroll
            for (int i = 0; i < PAIRS; ++i) {
                const float2 value = __half22float2(v_tile[j * D / 2 + i * GROUP + lane]);
                sum[i].x = sum[i].x * keep + weight * value.x;
                sum[i].y = sum[i].y * keep + weight * value.y;
            }
        }
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }

    if (row >= queries) return;
    __half2* o_row = reinterpret_cast<__half2*>(o + head_at + row * D);
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) o_row[i * GROUP + lane] = __floats2half2_rn(sum[i].x / weights, sum[i].y / weights);
}
