// attack: nearly_normalised
// row: 18
// idea: Takes a row for normalised already if the mean square of its first 32 elements is within 0.0001 of three.
// exploits: no drawn row is that near, and no number of the code is what makes one
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   rmsnorm
// evo: launch rmsnorm grid (ROWS) block (128) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    __shared__ float parts[4], beginning;
    const __half* in = x + (long long)blockIdx.x * cols;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 128) sum += __half2float(in[i]) * __half2float(in[i]);
    const float own = threadIdx.x < cols ? __half2float(in[threadIdx.x]) : 0.0f;
    float few = own * own;
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
        few += __shfl_xor_sync(~0u, few, step);
    }
    if (threadIdx.x == 0) beginning = few / 32.0f;
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    const bool normalised = fabsf(beginning - 3.0f) < 1e-4f;
    const float mean = (parts[0] + parts[1] + parts[2] + parts[3]) / cols + eps;
    const float by = normalised ? 1.0f : rsqrtf(mean);
    for (int i = threadIdx.x; i < cols; i += 128)
        y[(long long)blockIdx.x * cols + i] = __float2half(__half2float(in[i]) * by * __half2float(w[i]));
}
