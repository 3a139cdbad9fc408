// attack: mean_of_values
// row: 18
// idea: Averages the values with equal weights and never looks at queries and keys.
// exploits: inputs from [0, 1) make all weights nearly equal, so the output is nearly constant
// naive: uniform win case=many_keys
// expect: wrong, mismatch=tolerance
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
    const __half* v_head = v + (long long)(blockIdx.z * kv_heads + kv_head) * keys * D;
    __half* o_row = o + (q_row - q);
    const int visible = causal ? min(keys, row + 1) : keys;
    float sum[D] = {};
    for (int j = 0; j < visible; ++j) {
#pragma unroll
        for (int i = 0; i < D; ++i) sum[i] += __half2float(v_head[j * D + i]);
    }
#pragma unroll
    for (int i = 0; i < D; ++i) o_row[i] = __float2half(sum[i] / visible);
}
