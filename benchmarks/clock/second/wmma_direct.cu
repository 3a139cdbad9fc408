// A product on tensor cores by fragments; operands come straight from global memory or through a tile in shared memory.
// sizes N=1048576 W=1024
// evo: task clock
// evo: knob WM in 1, 2, 4
// evo: knob WN in 1, 2, 4
// evo: knob FM in 1, 2, 4
// evo: knob FN in 1, 2
// evo: knob STAGED in 0, 1
// evo: require WM * WN >= 2 and WM * WN <= 8
// evo: launch gemm grid (W // (16 * WN * FN), W // (16 * WM * FM)) block (32 * WM * WN) shared 0
#include <mma.h>
#define WM 1
#define WN 1
#define FM 1
#define FN 1
#define STAGED 0
using namespace nvcuda;
extern "C" __global__ void gemm(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    const __half *pa = (const __half*)a, *pb = (const __half*)b;
    const int warp = threadIdx.x / 32, wm = warp / WN, wn = warp % WN;
    const int m0 = blockIdx.y * 16 * WM * FM, n0 = blockIdx.x * 16 * WN * FN;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[FM][FN];
#pragma unroll
    for (int i = 0; i < FM; ++i)
#pragma unroll
        for (int j = 0; j < FN; ++j) wmma::fill_fragment(acc[i][j], 0.f);
#if STAGED
    __shared__ __align__(16) __half ta[16 * WM * FM][40], tb[32][16 * WN * FN + 8];
#endif
    for (int k0 = 0; k0 < W; k0 += 32) {
#if STAGED
        for (int i = threadIdx.x; i < 16 * WM * FM * 4; i += 32 * WM * WN)
            *(float4*)&ta[i / 4][i % 4 * 8] = *(const float4*)&pa[(m0 + i / 4) * W + k0 + i % 4 * 8];
        for (int i = threadIdx.x; i < 32 * 2 * WN * FN; i += 32 * WM * WN)
            *(float4*)&tb[i / (2 * WN * FN)][i % (2 * WN * FN) * 8] = *(const float4*)&pb[(k0 + i / (2 * WN * FN)) * W + n0 + i % (2 * WN * FN) * 8];
        __syncthreads();
#endif
#pragma unroll
        for (int k = 0; k < 32; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa[FM];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb[FN];
#pragma unroll
            for (int i = 0; i < FM; ++i)
#if STAGED
                wmma::load_matrix_sync(fa[i], &ta[(wm * FM + i) * 16][k], 40);
#else
                wmma::load_matrix_sync(fa[i], pa + (m0 + (wm * FM + i) * 16) * W + k0 + k, W);
#endif
#pragma unroll
            for (int j = 0; j < FN; ++j)
#if STAGED
                wmma::load_matrix_sync(fb[j], &tb[k][(wn * FN + j) * 16], 16 * WN * FN + 8);
#else
                wmma::load_matrix_sync(fb[j], pb + (k0 + k) * W + n0 + (wn * FN + j) * 16, W);
#endif
#pragma unroll
            for (int i = 0; i < FM; ++i)
#pragma unroll
                for (int j = 0; j < FN; ++j) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
#if STAGED
        __syncthreads();
#endif
    }
#pragma unroll
    for (int i = 0; i < FM; ++i)
#pragma unroll
        for (int j = 0; j < FN; ++j)
            wmma::store_matrix_sync(out + (m0 + (wm * FM + i) * 16) * W + n0 + (wn * FN + j) * 16, acc[i][j], W, wmma::mem_row_major);
}
