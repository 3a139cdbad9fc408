// evo: task attention_mma
// evo: launch heads grid (ceil_div(L, 64), H, N) block (64) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void heads(const half* q, const half* k, const half* v, half* o, int N, int H, int L, int D) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= L) return;
    long long first = (long long)(blockIdx.z * H + blockIdx.y) * L;
    float scale = rsqrtf(D), top = -INFINITY, total = 0.0f;
    for (int j = 0; j <= row; j++) {
        float s = 0.0f;
        for (int d = 0; d < D; d++) s += __half2float(q[(first + row) * D + d]) * __half2float(k[(first + j) * D + d]);
        top = fmaxf(top, s * scale);
    }
    float sum[96] = {};
    for (int j = 0; j <= row; j++) {
        float s = 0.0f;
        for (int d = 0; d < D; d++) s += __half2float(q[(first + row) * D + d]) * __half2float(k[(first + j) * D + d]);
        float w = expf(s * scale - top);
        total += w;
        for (int d = 0; d < D; d++) sum[d] += w * __half2float(v[(first + j) * D + d]);
    }
    for (int d = 0; d < D; d++) o[(first + row) * D + d] = __float2half(sum[d] / total);
}
