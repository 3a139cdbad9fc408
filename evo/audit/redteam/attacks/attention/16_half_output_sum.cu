// attack: half_output_sum
// row: 16 F12
// idea: Accumulates the output in half precision.
// exploits: a tolerance of 1e-2 hides the lost bits
// expect: wrong, mismatch=max_error
// evo: task attention
// evo: macro D
// evo: launch attention grid (ceil_div(SQ, 64), HQ, B) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void attention(const __half* q, const __half* k, const __half* v, __half* o, float scale,
                                     int batch, int heads, int kv_heads, int queries, int keys, int dim, int causal) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= queries) return;
    const int kv_head = blockIdx.y / (heads / kv_heads);
    const __half* q_row = q + ((long long)(blockIdx.z * heads + blockIdx.y) * queries + row) * D;
    const __half* k_head = k + (long long)(blockIdx.z * kv_heads + kv_head) * keys * D;
    const __half* v_head = v + (long long)(blockIdx.z * kv_heads + kv_head) * keys * D;
    __half* o_row = o + (q_row - q);
    const int visible = causal ? min(keys, row + 1) : keys;
    __half sum[D] = {};
    float largest = -INFINITY;
    float weights = 0.0f;
    for (int j = 0; j < visible; ++j) {
        float score = 0.0f;
        for (int i = 0; i < D; ++i) score += __half2float(q_row[i]) * __half2float(k_head[j * D + i]);
        score *= scale;
        const float now = fmaxf(largest, score);
        const float keep = expf(largest - now);
        const float weight = expf(score - now);
        largest = now;
        weights = weights * keep + weight;
#pragma unroll
        for (int i = 0; i < D; ++i) {
            const __half part = __hmul(__float2half(weight), v_head[j * D + i]);
            sum[i] = __hfma(sum[i], __float2half(keep), part);
        }
    }
#pragma unroll
    for (int i = 0; i < D; ++i) o_row[i] = __float2half(__half2float(sum[i]) / weights);
}
