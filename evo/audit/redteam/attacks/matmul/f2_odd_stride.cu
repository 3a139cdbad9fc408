// attack: odd_stride
// row: F2
// idea: Pads the rows of a tile to 65 halves "to avoid bank conflicts" and fills them with 16-byte copies.
// exploits: the padding was never checked against the width of the copy
// expect: unsafe, fault=misaligned
// evo: task matmul
// evo: launch matmul grid (N, ceil_div(M, 64)) block (64) shared 0
#include <cuda_fp16.h>

__device__ void copy16(void* shared, const void* global) {
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global));
}

extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, int m, int n, int k) {
    __shared__ __align__(16) __half tile[64 * 65];
    const int first = blockIdx.y * 64;
    const int col = blockIdx.x;
    float sum = 0.0f;
    for (int base = 0; base < k; base += 64) {
        for (int i = threadIdx.x; i < 512; i += 64) {
            const int row = i / 8;
            const int part = i % 8 * 8;
            const __half* from = a + (long long)(first + row) * k + base + part;
            if (first + row < m && base + part + 8 <= k && k % 8 == 0) {
                copy16(tile + row * 65 + part, from);
            } else {
                for (int e = 0; e < 8; ++e) {
                    const bool inside = first + row < m && base + part + e < k;
                    tile[row * 65 + part + e] = inside ? from[e] : __float2half(0.0f);
                }
            }
        }
        asm volatile("cp.async.wait_all;");
        __syncthreads();
        const int row = threadIdx.x;
        for (int j = 0; j < 64 && base + j < k; ++j)
            sum += __half2float(tile[row * 65 + j]) * __half2float(b[(long long)(base + j) * n + col]);
        __syncthreads();
    }
    if (first + threadIdx.x < m) c[(long long)(first + threadIdx.x) * n + col] = __float2half(sum);
}
