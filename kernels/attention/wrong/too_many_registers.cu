// expect: refused, stage=limits
// One block of 512 threads to a head and a query row to each thread, with the row of Q and of the output in registers:
// more registers than an SM has, so it can never be launched.
// evo: task   attention
// evo: macro  D
// evo: launch attention grid (ceil_div(SQ, 512), HQ, B) block (512) shared 0
#include <cuda_fp16.h>

constexpr int THREADS = 512;

extern "C" __global__ void attention(const __half* q, const __half* k, const __half* v, __half* o, float scale,
                                     int batch, int heads, int kv_heads, int queries, int keys, int dim, int causal) {
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= queries) return;
    const int head = blockIdx.y;
    const long long head_at = (long long)(blockIdx.z * heads + head) * queries * D + (long long)row * D;
    const long long kv_at = (long long)(blockIdx.z * kv_heads + head / (heads / kv_heads)) * keys * D;
    float query[D], sum[D];
#pragma unroll
    for (int d = 0; d < D; ++d) {
        query[d] = __half2float(q[head_at + d]) * scale;
        sum[d] = 0.0f;
    }
    float largest = -INFINITY, weights = 0.0f;
    const int end = causal ? min(keys, row + 1) : keys;
    for (int key = 0; key < end; ++key) {
        const __half* k_row = k + kv_at + (long long)key * D;
        const __half* v_row = v + kv_at + (long long)key * D;
        float score = 0.0f;
#pragma unroll
        for (int d = 0; d < D; ++d) score += query[d] * __half2float(k_row[d]);
        const float above = fmaxf(largest, score);
        const float keep = expf(largest - above), weight = expf(score - above);
        largest = above;
        weights = weights * keep + weight;
#pragma unroll
        for (int d = 0; d < D; ++d) sum[d] = sum[d] * keep + weight * __half2float(v_row[d]);
    }
#pragma unroll
    for (int d = 0; d < D; ++d) o[head_at + d] = __float2half(sum[d] / weights);
}
