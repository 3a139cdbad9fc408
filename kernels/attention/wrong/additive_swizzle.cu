// expect: unsafe, fault=race
// A swizzle that adds its XOR value to the offset and keeps the pad: no permutation. A tile of 32 x 64 has 2,048 elements
// at 1,768 addresses, eight of them past its end. `evo derive --check` says so from the line below.
// layout: k TILE x 64 float16 at row * (64 + 8) + col + ((((row >> 2) ^ (col >> 4)) & 7) << 2) of TILE * 72
// evo: task   attention
// evo: macro  D
// evo: knob   TILE in 32
// evo: launch attention grid (ceil_div(SQ, 128), HQ, B) block (128) shared 0
#include <cuda_fp16.h>

#define TILE 32

constexpr int THREADS = 128;

__device__ inline int swizzled(int row, int col) { return row * (D + 8) + col + ((((row >> 2) ^ (col >> 4)) & 7) << 2); }

extern "C" __global__ void attention(const __half* q, const __half* k, const __half* v, __half* o, float scale,
                                     int batch, int heads, int kv_heads, int queries, int keys, int dim, int causal) {
    __shared__ __half k_tile[TILE * (D + 8)];
    __shared__ __half v_tile[TILE * D];
    const int row = blockIdx.x * THREADS + threadIdx.x;
    const int head = blockIdx.y;
    const int item = blockIdx.z;
    const long long head_at = (long long)(item * heads + head) * queries * D;
    const long long kv_at = (long long)(item * kv_heads + head / (heads / kv_heads)) * keys * D;
    const __half* mine = q + head_at + (long long)min(row, queries - 1) * D;

    float sum[D] = {};
    float largest = -INFINITY, weights = 0.0f;
    for (int first = 0; first < keys; first += TILE) {
        __syncthreads();
        for (int at = threadIdx.x; at < TILE * D; at += THREADS) {
            const bool present = first + at / D < keys;
            const long long from = kv_at + (long long)first * D + at;
            k_tile[swizzled(at / D, at % D)] = present ? k[from] : __float2half(0.0f);
            v_tile[at] = present ? v[from] : __float2half(0.0f);
        }
        __syncthreads();
        for (int key = 0; key < TILE && first + key < keys && !(causal && first + key > row); ++key) {
            float score = 0.0f;
            for (int d = 0; d < D; ++d) score += __half2float(mine[d]) * __half2float(k_tile[swizzled(key, d)]);
            score *= scale;
            const float above = fmaxf(largest, score);
            const float keep = expf(largest - above), weight = expf(score - above);
            largest = above;
            weights = weights * keep + weight;
            for (int d = 0; d < D; ++d) sum[d] = sum[d] * keep + weight * __half2float(v_tile[key * D + d]);
        }
    }
    if (row < queries) {
        for (int d = 0; d < D; ++d) o[head_at + (long long)row * D + d] = __float2half(sum[d] / weights);
    }
}
