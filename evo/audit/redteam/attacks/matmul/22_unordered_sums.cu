// attack: unordered_sums
// row: 22
// idea: Four blocks add their part of a sum to one float, in the order in which they happen to arrive.
// exploits: a simulator, or a quiet GPU, always has the same block arrive first
// expect: unstable, stage=gate, mismatch=unrepeatable
// gpu: unstable, stage=gate, mismatch=unrepeatable
// evo: task    matmul
// evo: scratch sums float32 [M, N] init=zero
// evo: launch  matmul grid (ceil_div(N, 32), ceil_div(M, 8), 4) block (256) shared 0
// evo: launch  rounded grid (ceil_div(M * N, 256)) block (256) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, float* sums, int m, int n, int k) {
    const int col = blockIdx.x * 32 + threadIdx.x % 32;
    const int row = blockIdx.y * 8 + threadIdx.x / 32;
    if (row >= m || col >= n) return;
    const int span = (k + 3) / 4;
    const int last = min(k, (int)(blockIdx.z + 1) * span);
    float sum = 0.0f;
    for (int i = blockIdx.z * span; i < last; ++i)
        sum += __half2float(a[(long long)row * k + i]) * __half2float(b[(long long)i * n + col]);
    atomicAdd(sums + (long long)row * n + col, sum);
}

extern "C" __global__ void rounded(const __half* a, const __half* b, __half* c, float* sums, int m, int n, int k) {
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i < (long long)m * n) c[i] = __float2half(sums[i]);
}
