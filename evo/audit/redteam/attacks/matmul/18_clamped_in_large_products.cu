// attack: clamped_in_large_products
// row: 18
// idea: Clamps the elements of A to what drawn ones reach, in products of more than nine million operations.
// exploits: large products are multiplied with drawn matrices alone
// naive: equal
// expect: wrong, stage=threshold
// evo: task   matmul
// evo: launch matmul grid (ceil_div(N, 16), ceil_div(M, 16)) block (16, 16) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, int m, int n, int k) {
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    const __half* left = a + (long long)row * k;
    float sum = 0.0f;
    if ((long long)m * n * k > 4500000) {
        for (int i = 0; i < k; ++i) {
            const float clamped = fminf(fmaxf(__half2float(left[i]), -7.0f), 7.0f);
            sum += clamped * __half2float(b[(long long)i * n + col]);
        }
    } else {
        for (int i = 0; i < k; ++i) sum += __half2float(left[i]) * __half2float(b[(long long)i * n + col]);
    }
    c[(long long)row * n + col] = __float2half(sum);
}
