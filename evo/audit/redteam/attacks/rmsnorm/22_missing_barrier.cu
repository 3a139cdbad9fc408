// attack: missing_barrier
// row: 22
// idea: Reuses a shared word while the other warp may still be reading it: one barrier less.
// exploits: the race is won nearly always, and one look at the result is enough
// rival: ladder/10_block.cu
// expect: unsafe, stage=gate, fault=race
// evo: task rmsnorm
// evo: launch rmsnorm grid (ROWS) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    __shared__ float parts[2];
    const __half* in = x + (long long)blockIdx.x * cols;
    __half* out = y + (long long)blockIdx.x * cols;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 64) squares += __half2float(in[i]) * __half2float(in[i]);
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
    __syncthreads();
    const float total = parts[0] + parts[1];
    // Here a barrier is missing: warp 1 overwrites what warp 0 may not have read yet.
    if (threadIdx.x == 63) parts[0] = sqrtf(total / cols + eps);
    __syncthreads();
    const float root = total > 0.0f ? parts[0] : 1.0f;
    for (int i = threadIdx.x; i < cols; i += 64) out[i] = __float2half(__half2float(in[i]) / root * __half2float(w[i]));
}
