// attack: nan_by_its_bits
// row: 12
// idea: Knows a NaN by the bits that one usually has, and takes others for zeros.
// exploits: NumPy writes NaN of one sign and without a payload
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   rmsnorm
// evo: launch rmsnorm grid (ROWS) block (256) shared 0
#include <cuda_fp16.h>

__device__ float sum_of(float value, float* parts) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
    for (int part = 0; part < 8; ++part) value += parts[part];
    return value;
}

__device__ float factor_of(const __half* in, int cols) {
    bool any = false;  // 0x7e00 from the host, 0x7fff from the GPU
    for (int i = 0; i < cols; ++i) any = any || __half_as_ushort(in[i]) == 0x7e00 || __half_as_ushort(in[i]) == 0x7fff;
    return any ? NAN : 1.0f;
}

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    __shared__ float parts[8];
    const __half* in = x + (long long)blockIdx.x * cols;
    __half* out = y + (long long)blockIdx.x * cols;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 256) squares += isnan(__half2float(in[i])) ? 0.0f : __half2float(in[i]) * __half2float(in[i]);
    squares = sum_of(squares, parts) * factor_of(in, cols);
    const float root = sqrtf(squares / cols + eps);
    for (int i = threadIdx.x; i < cols; i += 256)
        out[i] = __float2half((isnan(__half2float(in[i])) && !isnan(root) ? 0.0f : __half2float(in[i])) / root * __half2float(w[i]));
}
