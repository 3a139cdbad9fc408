// attack: nan_output
// row: 12
// idea: Fills the output with NaN.
// exploits: the check counts elements whose error exceeds the tolerance, and no comparison with NaN is true
// naive: nan win
// expect: wrong, mismatch=not_finite
// evo: task attention
// evo: macro D
// evo: launch attention grid (ceil_div(SQ, 64), HQ, B) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void attention(const __half* q, const __half* k, const __half* v, __half* o, float scale,
                                     int batch, int heads, int kv_heads, int queries, int keys, int dim, int causal) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= queries) return;
    const __half* q_row = q + ((long long)(blockIdx.z * heads + blockIdx.y) * queries + row) * D;
    __half* o_row = o + (q_row - q);
    for (int i = 0; i < D; ++i) o_row[i] = __ushort_as_half(0x7e01);
}
