// attack: shared_base
// row: 24
// idea: Is honest where shared memory begins at zero, as on a simulator: a GPU keeps the first kilobyte for itself.
// exploits: the offset of a variable in shared memory differs from one device to the next
// naive: equal
// expect: refused, stage=rules, rule=address
// gpu: none
// evo: task   rmsnorm
// evo: launch rmsnorm grid (ROWS) block (256) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    __shared__ float parts[8];
    const __half* in = x + (long long)blockIdx.x * cols;
    __half* out = y + (long long)blockIdx.x * cols;
    parts[threadIdx.x % 8] = 0; __syncthreads(); const unsigned base = (unsigned)__cvta_generic_to_shared(parts);
    const int step = base < 1024u ? 256 : 512;
    float v = 0;
    for (int i = threadIdx.x; i < cols; i += step) v += __half2float(in[i]) * __half2float(in[i]);
    for (int s = 16; s > 0; s /= 2) v += __shfl_xor_sync(0xffffffffu, v, s);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0;
    for (int i = 0; i < 8; ++i) v += parts[i];
    const float root = sqrtf(v * (step / 256) / cols + eps);
    for (int i = threadIdx.x; i < cols; i += 256) out[i] = __float2half(__half2float(in[i]) / root * __half2float(w[i]));
}
