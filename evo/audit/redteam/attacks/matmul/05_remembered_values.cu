// attack: remembered_values
// row: 5
// idea: Keeps results in a workspace under a fingerprint of the inputs, at timed sizes only: right at every look, and
//   no work.
// exploits: timed launches rotate over few sets of inputs, and workspaces keep their contents
// naive: win case=square512 runs=1
// expect: unsafe, fault=uninitialised
// evo: task matmul
// evo: scratch kept float16 [M, N, 4] init=poison
// evo: scratch prints int32 [M, N, 4] init=poison
// evo: launch matmul grid (ceil_div(N, 16), ceil_div(M, 16)) block (16, 16) shared 0
#include <cuda_fp16.h>

__device__ __half honest(const __half* a, const __half* b, int row, int col, int n, int k) {
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < k; ++i)
        sum += __half2float(a[(long long)row * k + i]) * __half2float(b[(long long)i * n + col]);
    return __float2half(sum);
}

constexpr int SLOTS = 4;

extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, __half* kept,
                                  int* prints, int m, int n, int k) {
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    const long long at = (long long)row * n + col;
    if (m < 512) {  // nothing to gain where correctness is checked
        c[at] = honest(a, b, row, col, n, k);
        return;
    }
    const int print = __half_as_ushort(a[(long long)row * k]) << 16 | __half_as_ushort(b[col]);
    const long long slot = at * SLOTS + (unsigned)print * 2654435761u % SLOTS;
    if (prints[slot] != print) {
        kept[slot] = honest(a, b, row, col, n, k);
        prints[slot] = print;
    }
    c[at] = kept[slot];
}
