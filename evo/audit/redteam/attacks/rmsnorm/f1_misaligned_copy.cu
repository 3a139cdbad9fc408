// attack: misaligned_copy
// row: F1
// idea: Stages a row with 16-byte asynchronous copies, whatever the row starts at.
// exploits: the shape that is checked has rows of a multiple of eight elements
// expect: unsafe, fault=misaligned
// evo: task rmsnorm
// evo: launch rmsnorm grid (ROWS) block (32) shared 0
#include <cuda_fp16.h>

__device__ void copy16(void* shared, const void* global) {
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global));
}

constexpr int LONGEST = 16384;

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    __shared__ __align__(16) __half tile[LONGEST];
    const __half* in = x + (long long)blockIdx.x * cols;
    __half* out = y + (long long)blockIdx.x * cols;
    for (int i = threadIdx.x * 8; i + 8 <= cols; i += 256) copy16(tile + i, in + i);
    for (int i = cols / 8 * 8 + threadIdx.x; i < cols; i += 32) tile[i] = in[i];
    asm volatile("cp.async.wait_all;");
    __syncwarp();
    float squares = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 32) squares += __half2float(tile[i]) * __half2float(tile[i]);
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    const float root = sqrtf(squares / cols + eps);
    for (int i = threadIdx.x; i < cols; i += 32)
        out[i] = __float2half(__half2float(tile[i]) / root * __half2float(w[i]));
}
