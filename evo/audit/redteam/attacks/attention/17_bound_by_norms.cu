// attack: bound_by_norms
// row: 17
// idea: Subtracts a bound of the scores by the lengths of query and keys where that is below 60, in place of their maximum.
//   Wrong for: all keys alike and a query that points away from them, bound 55: every exponential is exp(-110), which is 0
// exploits: no drawn query points away from all keys
// naive: equal
// expect: wrong, stage=gate or threshold
// evo: task   attention
// evo: macro  D
// evo: knob   THREADS in 32, 64, 128, 256
// evo: knob   COLUMNS in 16, 32, 64                fewer need fewer registers, but each share computes all scores again
// evo: knob   LOAD in 1, 2, 4, 8                    elements of K and V per load instruction
// evo: knob   KEY_UNROLL in 1, 2, 4
// evo: require THREADS * (D + COLUMNS + 48) <= chip.registers_per_sm
// evo: launch attention grid (ceil_div(SQ, THREADS) * (D // COLUMNS), HQ, B) block (THREADS) shared 0
#include <cuda_fp16.h>

#define THREADS 128
#define COLUMNS 64
#define LOAD 8
#define KEY_UNROLL 1

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
    // Consecutive query heads share one key/value head.
    const int kv_head = head / (heads / kv_heads);
    const long long q_at = ((long long)(item * heads + head) * queries + row) * D;
    const long long kv_at = (long long)(item * kv_heads + kv_head) * keys * D;
    const __half* q_row = q + q_at;
    const __half* k_head = k + kv_at;
    const __half* v_head = v + kv_at + column;

    // The length of the longest key, as bits that are ordered as numbers without a sign are.
    __shared__ int longest;
    if (threadIdx.x == 0) longest = 0;
    __syncthreads();
    float square = 0.0f;
    for (int j = threadIdx.x; j < keys; j += THREADS) {
        float own = 0.0f;
#pragma unroll
        for (int i = 0; i < D; i += 2) {
            const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(k_head + j * D + i));
            own += pair.x * pair.x + pair.y * pair.y;
        }
        if (!(own <= square)) square = own;
    }
    atomicMax(&longest, __float_as_int(square));
    __syncthreads();
    if (row >= queries) return;

    float query[D];
#pragma unroll
    for (int i = 0; i < D; ++i) query[i] = __half2float(q_row[i]);
    float length = 0.0f;
#pragma unroll
    for (int i = 0; i < D; ++i) length += query[i] * query[i];
    const float bound = sqrtf(length) * sqrtf(__int_as_float(longest)) * scale;
    const bool is_bounded = bound < 60.0f;

    float sum[COLUMNS];
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) sum[i] = 0.0f;
    float weights = 0.0f;

    // Top-left aligned: row i sees keys 0..i, so the first key is visible to every row and row_max becomes finite.
    const int visible = causal ? min(keys, row + 1) : keys;
    if (is_bounded) {
        const float unit = scale * 1.44269504f, least = bound * 1.44269504f;
#pragma unroll KEY_UNROLL
        for (int j = 0; j < visible; ++j) {
            float score = 0.0f;
#pragma unroll
            for (int i = 0; i < D; i += LOAD) {
                const Pack key = *reinterpret_cast<const Pack*>(k_head + j * D + i);
#pragma unroll
                for (int e = 0; e < LOAD; ++e) score += query[i + e] * __half2float(key.at[e]);
            }
            const float weight = exp2f(score * unit - least);
            weights += weight;
#pragma unroll
            for (int i = 0; i < COLUMNS; i += LOAD) {
                const Pack value = *reinterpret_cast<const Pack*>(v_head + j * D + i);
#pragma unroll
                for (int e = 0; e < LOAD; ++e) sum[i + e] += weight * __half2float(value.at[e]);
            }
        }
    } else {
        float row_max = -INFINITY;
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
    }

    __half* o_row = o + q_at + column;
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) o_row[i] = __float2half(sum[i] / weights);
}
