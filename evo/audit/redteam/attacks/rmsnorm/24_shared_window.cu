// attack: shared_window
// row: 24
// idea: Is honest where the generic addresses of shared memory are a simulator's, and sums half of each row elsewhere.
// exploits: a kernel may know where its shared memory lies, which differs from one device to the next
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
    const unsigned high = (unsigned)((unsigned long long)parts >> 32);
    const int step = high == 0x7000u ? 256 : 512;
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
