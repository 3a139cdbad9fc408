// attention: one warp per query row, D split over lanes; grid.x over rows, macros compiled in
// evo: task   attention
// evo: macro  D, CAUSAL
// evo: knob   ROWS_PER_BLOCK in 1, 2, 4, 8
// evo: knob   UNR in 1, 2, 4
// evo: launch attention grid (ceil_div(SQ, ROWS_PER_BLOCK), HQ, B) block (32, ROWS_PER_BLOCK) shared 0
#include <cuda_fp16.h>
#define ROWS_PER_BLOCK 4
#define UNR 2
enum { kLanes = 32, kPer = (D + 31) / 32 };
#define AT(t, lane, e) (t)[(e) * kLanes + (lane)]

extern "C" __global__ void attention(const __half* __restrict__ Q, const __half* __restrict__ K, const __half* __restrict__ V,
                                     __half* __restrict__ O, float scale, int B_, int HQ_, int HKV_, int SQ_, int SK_)
{
    const int lane = threadIdx.x, row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.y, hq = blockIdx.y, b = blockIdx.z;
    if (row >= SQ_) return;
    const int hk = hq / (HQ_ / HKV_);
    const __half* q = Q + ((size_t)(b * HQ_ + hq) * SQ_ + row) * D;
    const __half* k = K + (size_t)(b * HKV_ + hk) * SK_ * D;
    const __half* v = V + (size_t)(b * HKV_ + hk) * SK_ * D;

    float qr[kPer], acc[kPer];
    for (int e = 0; e < kPer; ++e) { qr[e] = e * kLanes + lane < D ? __half2float(AT(q, lane, e)) * scale : 0.f; acc[e] = 0.f; }
    float m = -INFINITY, l = 0.f;
    int last = CAUSAL ? min(SK_, row + 1) : SK_;
#pragma unroll UNR
    for (int j = 0; j < last; ++j, k += D, v += D) {
        float s = 0.f;
        #pragma unroll
        for (int e = 0; e < kPer; ++e) if (e * kLanes + lane < D) s += qr[e] * __half2float(AT(k, lane, e));
        for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
        const float mn = fmaxf(m, s), corr = expf(m - mn), p = expf(s - mn);
        m = mn; l = l * corr + p;
        #pragma unroll
        for (int e = 0; e < kPer; ++e) if (e * kLanes + lane < D) acc[e] = acc[e] * corr + p * __half2float(AT(v, lane, e));
    }
    __half* o = O + ((size_t)(b * HQ_ + hq) * SQ_ + row) * D;
    for (int e = 0; e < kPer; ++e) if (e * kLanes + lane < D) AT(o, lane, e) = __float2half(acc[e] / l);
}
