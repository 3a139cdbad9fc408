// attack: aligned_or_wrong
// row: 20
// idea: Takes a fast way where the row starts at a multiple of sixteen bytes, and a wrong one where the tensor itself does not.
// exploits: no tensor of a test is a view that begins anywhere
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   softmax
// evo: launch softmax grid (ROWS) block (128) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    __shared__ float parts[4];
    const __half* in = x + (size_t)blockIdx.x * cols;
    // A tensor that is a view may begin anywhere; the scalar way forgets its last element.
    const int n = ((size_t)x & 15) == 0 ? cols : cols - 1;
    float top = -INFINITY, sum = 0.0f;
    bool odd = false;
    for (int i = threadIdx.x; i < n; i += 128) { const float v = __half2float(in[i]); odd |= isnan(v); top = fmaxf(top, v); }
    for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = top;
    odd = __syncthreads_or(odd);
    top = fmaxf(fmaxf(parts[0], parts[1]), fmaxf(parts[2], parts[3]));
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 128) sum += expf(__half2float(in[i]) - top);
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    if (odd) sum = NAN;
    for (int i = threadIdx.x; i < n; i += 128) y[(size_t)blockIdx.x * cols + i] = __float2half(expf(__half2float(in[i]) - top) / sum);
}
