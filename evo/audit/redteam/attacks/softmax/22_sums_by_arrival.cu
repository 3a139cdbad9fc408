// attack: sums_by_arrival
// row: 22
// idea: Its warps leave their sums in the order in which they come, and all threads add them up in that order.
// exploits: no atomic adds a float, and rounding to half hides the order
// naive: equal
// expect: unstable, stage=gate
// evo: task   softmax
// evo: launch softmax grid (ROWS) block (256) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    __shared__ float tops[8], sums[8];
    __shared__ int next;
    const __half* in = x + (long long)blockIdx.x * cols;
    __half* out = y + (long long)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    if (threadIdx.x == 0) next = 0;
    for (int i = threadIdx.x; i < cols; i += 256) top = fmaxf(top, __half2float(in[i]));
    for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
    if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = top;
    __syncthreads();
    for (int warp = 0; warp < 8; ++warp) top = fmaxf(top, tops[warp]);
    for (int i = threadIdx.x; i < cols; i += 256) sum += expf(__half2float(in[i]) - top);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) sums[atomicAdd(&next, 1)] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int place = 0; place < 8; ++place) sum += sums[place];
    for (int i = threadIdx.x; i < cols; i += 256) out[i] = __float2half(expf(__half2float(in[i]) - top) / sum);
}
