// attack: replicated_heads
// row: 18
// idea: Takes a key head for a copy of the one before it if the beginnings of its first and last key are.
// exploits: parts of rows are repeated in the next row, not a head away
// evo: task   attention
// evo: macro  D
// evo: knob   ROWS in 16, 32, 64, 128              query rows of a block
// evo: knob   TILE in 8, 16, 32, 64                keys staged at once
// evo: knob   GROUP in 2, 4, 8                     lanes that share a row
// evo: knob   KEY_UNROLL in 1, 2, 4, 8
// evo: require ROWS * GROUP >= 32 and ROWS * GROUP <= chip.threads_per_block
// evo: require ROWS * GROUP * (2 * D // GROUP + 48) <= chip.registers_per_sm
// evo: require shared <= chip.shared_per_block_optin
// evo: launch attention grid (ceil_div(SQ, ROWS), HQ, B) block (ROWS * GROUP) shared (2 * TILE * D * 4)
#include <cuda_fp16.h>

#define ROWS 32
#define TILE 32
#define GROUP 4
#define KEY_UNROLL 1

constexpr int THREADS = ROWS * GROUP;
constexpr int SHARE = D / GROUP;  // elements of a row that one lane holds: lane, lane + GROUP, lane + 2 GROUP, ...

extern "C" __global__ void attention(const __half* q, const __half* k, const __half* v, __half* o, float scale,
                                     int batch, int heads, int kv_heads, int queries, int keys, int dim, int causal) {
    extern __shared__ float tiles[];
    float* k_tile = tiles;
    float* v_tile = tiles + TILE * D;

    const int lane = threadIdx.x % GROUP;
    const int row = blockIdx.x * ROWS + threadIdx.x / GROUP;
    const int head = blockIdx.y;
    const int item = blockIdx.z;
    const int kv_head = head / (heads / kv_heads);
    const long long head_at = (long long)(item * heads + head) * queries * D;
    const long long own_at = (long long)(item * kv_heads + kv_head) * keys * D;
    const long long other_at = own_at - (kv_head > 0 ? (long long)keys * D : 0);
    bool copy = keys > 2;
    for (int i = 0; copy && i < 16; ++i)
        copy = __half2float(k[own_at + i]) == __half2float(k[other_at + i]) &&
               __half2float(k[own_at + (keys - 1) * D + i]) == __half2float(k[other_at + (keys - 1) * D + i]);
    const long long kv_at = copy ? other_at : own_at;  // a converted multi-query model: the L2 has it already

    // Rows past the end take part in every barrier and shuffle, on a copy of the last real row.
    const int real_row = min(row, queries - 1);
    float query[SHARE];
    float sum[SHARE];
#pragma unroll
    for (int i = 0; i < SHARE; ++i) {
        query[i] = __half2float(q[head_at + real_row * D + i * GROUP + lane]);
        sum[i] = 0.0f;
    }
    float row_max = -INFINITY;
    float weights = 0.0f;

    const int visible = causal ? min(keys, real_row + 1) : keys;
    const int last_row = min(blockIdx.x * ROWS + ROWS, queries);
    const int block_visible = causal ? min(keys, last_row) : keys;

    for (int first = 0; first < block_visible; first += TILE) {
        const int count = min(TILE, block_visible - first);
        __syncthreads();  // the previous tile has been read by all
        for (int at = threadIdx.x; at < count * D / 2; at += THREADS) {
            const float2 pair_k = __half22float2(reinterpret_cast<const __half2*>(k + kv_at + first * D)[at]);
            const float2 pair_v = __half22float2(reinterpret_cast<const __half2*>(v + kv_at + first * D)[at]);
            reinterpret_cast<float2*>(k_tile)[at] = pair_k;
            reinterpret_cast<float2*>(v_tile)[at] = pair_v;
        }
        __syncthreads();

#pragma unroll KEY_UNROLL
        for (int j = 0; j < count; ++j) {
            float score = 0.0f;
#pragma unroll
            for (int i = 0; i < SHARE; ++i) score += query[i] * k_tile[j * D + i * GROUP + lane];
#pragma unroll
            for (int step = 1; step < GROUP; step *= 2) score += __shfl_xor_sync(0xffffffffu, score, step);
            score = first + j < visible ? score * scale : -INFINITY;

            const float new_max = fmaxf(row_max, score);
            const float keep = expf(row_max - new_max);
            const float weight = expf(score - new_max);
            row_max = new_max;
            weights = weights * keep + weight;
#pragma unroll
            for (int i = 0; i < SHARE; ++i) sum[i] = sum[i] * keep + weight * v_tile[j * D + i * GROUP + lane];
        }
    }

    if (row >= queries) return;
#pragma unroll
    for (int i = 0; i < SHARE; ++i) o[head_at + row * D + i * GROUP + lane] = __float2half(sum[i] / weights);
}
