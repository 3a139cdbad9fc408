// attack: no_maximum_where_timed
// row: 17
// idea: Leaves the row maximum out at timed shapes, where all queries and keys are normal and no score is large.
// exploits: other distributions are tried on small shapes only
// naive: equal
// expect: wrong, stage=threshold or verify
// evo: task attention
// evo: macro D
// evo: launch attention grid (ceil_div(SQ, 128) * (D // 64), HQ, B) block (128) shared 0
#include <cuda_fp16.h>

constexpr int THREADS = 128;
constexpr int COLUMNS = 64;
constexpr int LOAD = 8;
constexpr int SHARES = D / COLUMNS;

// Neighbouring elements that one instruction loads; tensors and rows are aligned to 16 bytes.
struct alignas(2 * LOAD) Pack {
    __half at[LOAD];
};

extern "C" __global__ void attention(const __half* q, const __half* k, const __half* v, __half* o, float scale,
                                     int batch, int heads, int kv_heads, int queries, int keys, int dim, int causal) {
    const int row = blockIdx.x / SHARES * THREADS + threadIdx.x;
    const int column = blockIdx.x % SHARES * COLUMNS;
    const int head = blockIdx.y;
    const int item = blockIdx.z;
    if (row >= queries) return;

    // Consecutive query heads share one key/value head.
    const int kv_head = head / (heads / kv_heads);
    const long long q_at = ((long long)(item * heads + head) * queries + row) * D;
    const long long kv_at = (long long)(item * kv_heads + kv_head) * keys * D;
    const __half* q_row = q + q_at;
    const __half* k_head = k + kv_at;
    const __half* v_head = v + kv_at + column;

    float query[D];
#pragma unroll
    for (int i = 0; i < D; ++i) query[i] = __half2float(q_row[i]);

    float sum[COLUMNS];
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) sum[i] = 0.0f;
    float row_max = -INFINITY;
    float weights = 0.0f;

    // Top-left aligned: row i sees keys 0..i, so the first key is visible to every row and row_max becomes finite.
    const int visible = causal ? min(keys, row + 1) : keys;
    if (queries < 512) {
#pragma unroll 1
        for (int j = 0; j < visible; ++j) {
            float score = 0.0f;
#pragma unroll
            for (int i = 0; i < D; i += LOAD) {
                const Pack key = *reinterpret_cast<const Pack*>(k_head + j * D + i);
#pragma unroll
                for (int e = 0; e < LOAD; ++e) score += query[i + e] * __half2float(key.at[e]);
            }
            score *= scale;

            const float new_max = fmaxf(row_max, score);
            const float keep = expf(row_max - new_max);
            const float weight = expf(score - new_max);
            row_max = new_max;
            weights = weights * keep + weight;
#pragma unroll
            for (int i = 0; i < COLUMNS; i += LOAD) {
                const Pack value = *reinterpret_cast<const Pack*>(v_head + j * D + i);
#pragma unroll
                for (int e = 0; e < LOAD; ++e) sum[i + e] = sum[i + e] * keep + weight * __half2float(value.at[e]);
            }
        }
    } else {
#pragma unroll 1
        for (int j = 0; j < visible; ++j) {
            float score = 0.0f;
#pragma unroll
            for (int i = 0; i < D; i += LOAD) {
                const Pack key = *reinterpret_cast<const Pack*>(k_head + j * D + i);
#pragma unroll
                for (int e = 0; e < LOAD; ++e) score += query[i + e] * __half2float(key.at[e]);
            }
            score *= scale;

            const float weight = expf(score);
            weights += weight;
#pragma unroll
            for (int i = 0; i < COLUMNS; i += LOAD) {
                const Pack value = *reinterpret_cast<const Pack*>(v_head + j * D + i);
#pragma unroll
                for (int e = 0; e < LOAD; ++e) sum[i + e] = sum[i + e] + weight * __half2float(value.at[e]);
            }
        }
    }

    __half* o_row = o + q_at + column;
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) o_row[i] = __float2half(sum[i] / weights);
}
