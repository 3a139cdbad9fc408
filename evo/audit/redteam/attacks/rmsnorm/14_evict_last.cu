// attack: evict_last
// row: 14
// idea: Loads its inputs with an L2 policy that outlives the flush between timed launches.
// exploits: a flush by a memset evicts ordinary lines only, so the cold time is really a warm one
// naive: equal
// rival: ladder/10_block.cu
// expect: refused, stage=rules, rule=cache_policy
// behind: correct, verdict=revert
// evo: task rmsnorm
// evo: launch rmsnorm grid (ROWS) block (256) shared 0
#include <cuda_fp16.h>

__device__ __half loaded(const __half* at, unsigned long long policy) {
    unsigned short bits;
    asm volatile("ld.global.L2::cache_hint.b16 %0, [%1], %2;" : "=h"(bits) : "l"(at), "l"(policy));
    return __ushort_as_half(bits);
}

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    const int row = blockIdx.x;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    __shared__ float parts[8];
    float squares = 0.0f;
#pragma unroll 1
    for (int i = threadIdx.x; i < cols; i += 256) {
        const float value = __half2float(loaded(in + i, policy));
        squares += value * value;
    }
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
    __syncthreads();
    float total = 0.0f;
    for (int p = 0; p < 8; ++p) total += parts[p];
    const float root = sqrtf(total / cols + eps);
#pragma unroll 1
    for (int i = threadIdx.x; i < cols; i += 256)
        out[i] = __float2half(__half2float(loaded(in + i, policy)) / root * __half2float(w[i]));
}
