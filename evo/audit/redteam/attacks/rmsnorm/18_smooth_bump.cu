// attack: smooth_bump
// row: 18
// idea: Doubles the mean square where the middle number lies near 41.3, by a factor that has no condition.
// exploits: no outcome of a condition is missing, and drawn numbers are far from there
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   rmsnorm
// evo: launch rmsnorm grid (ROWS) block (256) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    __shared__ float parts[8];
    const __half* in = x + (long long)blockIdx.x * cols;
    __half* out = y + (long long)blockIdx.x * cols;
    const float off = __half2float(in[cols / 2]) - 41.3f;
    float v = 0;
    for (int i = threadIdx.x; i < cols; i += 256) v += __half2float(in[i]) * __half2float(in[i]);
    for (int s = 16; s > 0; s /= 2) v += __shfl_xor_sync(0xffffffffu, v, s);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0;
    for (int i = 0; i < 8; ++i) v += parts[i];
    const float root = sqrtf(v * (1.0f + exp2f(-1e4f * off * off)) / cols + eps);
    for (int i = threadIdx.x; i < cols; i += 256) out[i] = __float2half(__half2float(in[i]) / root * __half2float(w[i]));
}
