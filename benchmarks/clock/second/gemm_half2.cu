// A product in packed halves: pairs of columns in one register, sums kept in half and added to floats now and then.
// sizes N=262144 W=512
// evo: task clock
// evo: knob BM in 16, 32, 64
// evo: knob BN in 32, 64, 128
// evo: knob TM in 2, 4, 8
// evo: knob FOLD in 8, 32
// evo: require (BM // TM) * (BN // 4) >= 32 and (BM // TM) * (BN // 4) <= 1024
// evo: launch gemm grid (W // BN, W // BM) block (BN // 4, BM // TM) shared 0
#include <cuda_fp16.h>
#define BM 16
#define BN 32
#define TM 2
#define FOLD 8
extern "C" __global__ void gemm(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    __shared__ __half2 left[32][BM + 1], right[32][BN / 2];
    const __half *pa = (const __half*)a, *pb = (const __half*)b;
    const int count = blockDim.x * blockDim.y, me = threadIdx.y * blockDim.x + threadIdx.x;
    float2 sum[TM][2] = {};
    for (int k0 = 0; k0 < W; k0 += 32) {
        for (int i = me; i < 32 * BM; i += count) left[i % 32][i / 32] = __half2half2(pa[(blockIdx.y * BM + i / 32) * W + k0 + i % 32]);
        for (int i = me; i < 32 * BN / 2; i += count)
            right[i / (BN / 2)][i % (BN / 2)] = *(const __half2*)&pb[(k0 + i / (BN / 2)) * W + blockIdx.x * BN + i % (BN / 2) * 2];
        __syncthreads();
        for (int f = 0; f < 32; f += FOLD) {
            __half2 part[TM][2];
#pragma unroll
            for (int i = 0; i < TM; ++i) part[i][0] = part[i][1] = __float2half2_rn(0.f);
#pragma unroll
            for (int k = 0; k < FOLD; ++k)
#pragma unroll
                for (int i = 0; i < TM; ++i) {
                    part[i][0] = __hfma2(left[f + k][threadIdx.y * TM + i], right[f + k][threadIdx.x * 2], part[i][0]);
                    part[i][1] = __hfma2(left[f + k][threadIdx.y * TM + i], right[f + k][threadIdx.x * 2 + 1], part[i][1]);
                }
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const float2 v = __half22float2(part[i][j]);
                    sum[i][j].x += v.x;
                    sum[i][j].y += v.y;
                }
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < 2; ++j) *(float2*)&out[(blockIdx.y * BM + threadIdx.y * TM + i) * W + blockIdx.x * BN + threadIdx.x * 4 + j * 2] = sum[i][j];
}
