// attention: a thread a query, scores twice (maximum first, then sums), D by a macro
// evo: task attention
// evo: macro D
// evo: launch attn grid (ceil_div(SQ, 64), HQ, B) block (64) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void attn(const __half* Q, const __half* K, const __half* V, __half* O, float scale, int B, int HQ,
                                int HKV, int SQ, int SK, int dim, int causal) {
    const int i = blockIdx.x * 64 + threadIdx.x, h = blockIdx.y, b = blockIdx.z;
    if (i >= SQ) return;
    const __half* q = Q + (((size_t)b * HQ + h) * SQ + i) * D;
    const __half* k = K + ((size_t)b * HKV + h / (HQ / HKV)) * SK * D;
    const __half* v = V + ((size_t)b * HKV + h / (HQ / HKV)) * SK * D;
    const int last = causal ? min(SK, i + 1) : SK;
    float top = -INFINITY;
    for (int j = 0; j < last; j++) {
        float s = 0.f;
        for (int d = 0; d < D; d++) s += __half2float(q[d]) * __half2float(k[j * D + d]);
        top = fmaxf(top, s * scale);
    }
    float acc[D];
    for (int d = 0; d < D; d++) acc[d] = 0.f;
    float total = 0.f;
    for (int j = 0; j < last; j++) {
        float s = 0.f;
        for (int d = 0; d < D; d++) s += __half2float(q[d]) * __half2float(k[j * D + d]);
        const float p = expf(s * scale - top);
        total += p;
        for (int d = 0; d < D; d++) acc[d] += p * __half2float(v[j * D + d]);
    }
    for (int d = 0; d < D; d++) O[(((size_t)b * HQ + h) * SQ + i) * D + d] = __float2half(acc[d] / total);
}
