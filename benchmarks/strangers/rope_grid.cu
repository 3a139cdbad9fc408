// rope: a block a token and head, threads over the pairs, unsigned index arithmetic
// evo: task rope
// evo: launch rope_kernel grid (B * S, H) block (64) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void rope_kernel(const __half* src, const float* cosT, const float* sinT, __half* dst, int batch,
                                       int seq, int heads, int dim, int table) {
    const unsigned token = blockIdx.x % seq + (table - seq);
    const __half* in = src + ((size_t)blockIdx.x * heads + blockIdx.y) * dim;
    __half* out = dst + ((size_t)blockIdx.x * heads + blockIdx.y) * dim;
    for (unsigned d = threadIdx.x; d < dim / 2; d += blockDim.x) {
        const float c = cosT[token * (dim / 2) + d];
        const float s = sinT[token * (dim / 2) + d];
        const float lo = __half2float(in[d]);
        const float hi = __half2float(in[d + dim / 2]);
        out[d] = __float2half(lo * c - hi * s);
        out[d + dim / 2] = __float2half(hi * c + lo * s);
    }
}
