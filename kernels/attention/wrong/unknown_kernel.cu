// expect: refused, stage=rules
// The launch line names a kernel that the file does not hold.
// evo: task   attention
// evo: macro  D
// evo: knob   THREADS in 32, 64, 128, 256
// evo: knob   COLUMNS in 16, 32, 64                fewer need fewer registers, but each share computes all scores again
// evo: knob   KEY_UNROLL in 1, 2, 4
// evo: require THREADS * (D + COLUMNS + 48) <= chip.registers_per_sm
// evo: launch attention_forward grid (ceil_div(SQ, THREADS) * (D // COLUMNS), HQ, B) block (THREADS) shared 0
#include <cuda_fp16.h>

#define THREADS 64
#define COLUMNS 64
#define KEY_UNROLL 1

constexpr int SHARES = D / COLUMNS;

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
#pragma unroll KEY_UNROLL
    for (int j = 0; j < visible; ++j) {
        float score = 0.0f;
#pragma unroll
        for (int i = 0; i < D; ++i) score += query[i] * __half2float(k_head[j * D + i]);
        score *= scale;

        const float new_max = fmaxf(row_max, score);
        const float keep = expf(row_max - new_max);
        const float weight = expf(score - new_max);
        row_max = new_max;
        weights = weights * keep + weight;
#pragma unroll
        for (int i = 0; i < COLUMNS; ++i) sum[i] = sum[i] * keep + weight * __half2float(v_head[j * D + i]);
    }

    __half* o_row = o + q_at + column;
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) o_row[i] = __float2half(sum[i] / weights);
}
