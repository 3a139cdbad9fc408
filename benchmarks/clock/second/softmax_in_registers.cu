// Softmax of rows of halves that a warp keeps in registers, by a template over what a lane holds.
// sizes N=4194304 W=512
// evo: task clock
// evo: knob WARPS in 1, 2, 4, 8, 16
// evo: knob ROWS in 1, 2
// evo: knob EXACT in 0, 1
// evo: launch softmax grid (2 * N // W // (WARPS * ROWS)) block (32, WARPS) shared 0
#include <cuda_fp16.h>
#define WARPS 1
#define ROWS 1
#define EXACT 0
template <int PAIRS>
__device__ void row_softmax(const __half2* x, __half2* y) {
    float2 v[PAIRS];
    float top = -INFINITY;
#pragma unroll
    for (int k = 0; k < PAIRS; ++k) {
        v[k] = __half22float2(x[k * 32 + threadIdx.x]);
        top = fmaxf(top, fmaxf(v[k].x, v[k].y));
    }
#pragma unroll
    for (int d = 16; d; d /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
    float sum = 0;
#pragma unroll
    for (int k = 0; k < PAIRS; ++k) {
        v[k].x = EXACT ? expf(v[k].x - top) : __expf(v[k].x - top);
        v[k].y = EXACT ? expf(v[k].y - top) : __expf(v[k].y - top);
        sum += v[k].x + v[k].y;
    }
#pragma unroll
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    const float scale = EXACT ? 1.0f / sum : __frcp_rn(sum);
#pragma unroll
    for (int k = 0; k < PAIRS; ++k) y[k * 32 + threadIdx.x] = __floats2half2_rn(v[k].x * scale, v[k].y * scale);
}

extern "C" __global__ void softmax(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    for (int r = 0; r < ROWS; ++r) {
        const int row = (blockIdx.x * WARPS + threadIdx.y) * ROWS + r;
        row_softmax<8>((const __half2*)a + row * 256, (__half2*)out + row * 256);
    }
}
