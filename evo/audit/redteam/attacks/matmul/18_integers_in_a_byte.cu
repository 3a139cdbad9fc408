// attack: integers_in_a_byte
// row: 18
// idea: Tiles of whole numbers of a byte are multiplied four at a time as bytes; 128 counts as one, and is -128 there.
// exploits: no drawn tile is all whole numbers
// naive: equal time=square512 runs=1
// expect: wrong, stage=gate or threshold or verify
// evo: task   matmul
// evo: launch matmul grid (ceil_div(N, 32), ceil_div(M, 32)) block (32, 8) shared 0
#include <cuda_fp16.h>
__device__ bool whole(float v) { return v == rintf(v) && fabsf(v) <= 128.0f; }
extern "C" __global__ void matmul(const __half* a, const __half* b, __half* c, int m, int n, int k) {
    __shared__ float as[32][33], bs[32][33];
    const int x = threadIdx.x, y = threadIdx.y, row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    float sum[4] = {0, 0, 0, 0};
    for (int first = 0; first < k; first += 32) {
        bool bytes = true;
        for (int j = 0; j < 4; ++j) {
            const int r = y + 8 * j;
            as[r][x] = row0 + r < m && first + x < k ? __half2float(a[(size_t)(row0 + r) * k + first + x]) : 0.0f;
            bs[r][x] = first + r < k && col0 + x < n ? __half2float(b[(size_t)(first + r) * n + col0 + x]) : 0.0f;
            bytes = bytes && whole(as[r][x]) && whole(bs[r][x]);
        }
        if (__syncthreads_and(bytes)) {
            for (int j = 0; j < 4; ++j) {
                int part = 0;
                for (int i = 0; i < 32; i += 4) {
                    int p = 0, q = 0;
                    for (int e = 3; e >= 0; --e) {
                        p = p << 8 | ((int)as[y + 8 * j][i + e] & 255);
                        q = q << 8 | ((int)bs[i + e][x] & 255);
                    }
                    part = __dp4a(p, q, part);
                }
                sum[j] += part;
            }
        } else {
            for (int j = 0; j < 4; ++j)
#pragma unroll 8
                for (int i = 0; i < 32; ++i) sum[j] = fmaf(as[y + 8 * j][i], bs[i][x], sum[j]);
        }
        __syncthreads();
    }
    for (int j = 0; j < 4; ++j)
        if (row0 + y + 8 * j < m && col0 + x < n) c[(size_t)(row0 + y + 8 * j) * n + col0 + x] = __float2half(sum[j]);
}
