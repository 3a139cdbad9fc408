// Flash attention, D = 64: ldmatrix, mma.m16n8k16, two-stage cp.async, XOR swizzle. 4 warps, 64 queries per block.
#include <cuda_fp16.h>
#define BM 64
#define BN 64
#define D 64
#ifndef SWIZZLE
#define SWIZZLE 1
#endif
__device__ __forceinline__ int at(int row, int chunk) { return row * D + ((SWIZZLE ? chunk ^ (row & 7) : chunk) * 8); }
__device__ __forceinline__ unsigned sptr(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy16(unsigned dst, const void* src, int size) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(size));
}
__device__ __forceinline__ void mma(float* c, const unsigned* a, unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ unsigned pack(float x, float y) { __half2 h = __floats2half2_rn(x, y); return *(unsigned*)&h; }
__device__ __forceinline__ void tile(__half* s, const __half* g, int first, int rows) {
  for (int i = threadIdx.x; i < 64 * 8; i += 128) {
    int r = i / 8, ch = i % 8; bool ok = first + r < rows;
    copy16(sptr(s + at(r, ch)), g + (size_t)(ok ? first + r : 0) * D + ch * 8, ok ? 16 : 0);
  }
}
extern "C" __global__ void __launch_bounds__(128) flash(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v, __half* __restrict__ o, int S, float scale) {
  extern __shared__ __align__(128) __half smem[];
  __half* sq = smem; __half* sk = sq + BM * D; __half* sv = sk + 2 * BN * D;
  int lane = threadIdx.x & 31, warp = threadIdx.x / 32, m0 = blockIdx.x * BM;
  size_t base = (size_t)blockIdx.y * S * D; q += base; k += base; v += base; o += base;
  tile(sq, q, m0, S); tile(sk, k, 0, S); tile(sv, v, 0, S);
  asm volatile("cp.async.commit_group;\n");
  int tiles = (S + BN - 1) / BN;
  unsigned aq[4][4]; float acc[8][4] = {}; float m[2] = {-1e30f, -1e30f}, l[2] = {0, 0};
  for (int t = 0; t < tiles; t++) {
    if (t + 1 < tiles) { tile(sk + ((t + 1) & 1) * BN * D, k, (t + 1) * BN, S); tile(sv + ((t + 1) & 1) * BN * D, v, (t + 1) * BN, S); }
    asm volatile("cp.async.commit_group;\n");
    asm volatile("cp.async.wait_group 1;\n");
    __syncthreads();
    if (t == 0)
#pragma unroll
      for (int kk = 0; kk < 4; kk++) {
        unsigned p = sptr(sq + at(warp * 16 + lane % 16, kk * 2 + lane / 16));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n" : "=r"(aq[kk][0]), "=r"(aq[kk][1]), "=r"(aq[kk][2]), "=r"(aq[kk][3]) : "r"(p));
      }
    const __half* ck = sk + (t & 1) * BN * D; const __half* cv = sv + (t & 1) * BN * D;
    float s[8][4] = {};
#pragma unroll
    for (int kk = 0; kk < 4; kk++)
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        unsigned b[4], p = sptr(ck + at(n * 8 + (lane / 16) * 8 + lane % 8, kk * 2 + (lane / 8) % 2));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(p));
        mma(s[n], aq[kk], b[0], b[1]); mma(s[n + 1], aq[kk], b[2], b[3]);
      }
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float mx = m[h];
#pragma unroll
      for (int n = 0; n < 8; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          int col = t * BN + n * 8 + (lane & 3) * 2 + e;
          float x = s[n][h * 2 + e] * scale * 1.44269504f; x = col < S ? x : -1e30f; s[n][h * 2 + e] = x; mx = fmaxf(mx, x);
        }
      mx = fmaxf(mx, __shfl_xor_sync(~0u, mx, 1)); mx = fmaxf(mx, __shfl_xor_sync(~0u, mx, 2));
      float c = exp2f(m[h] - mx), sum = 0; m[h] = mx;
#pragma unroll
      for (int n = 0; n < 8; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) { float x = exp2f(s[n][h * 2 + e] - mx); s[n][h * 2 + e] = x; sum += x; acc[n][h * 2 + e] *= c; }
      l[h] = l[h] * c + sum;
    }
#pragma unroll
    for (int kk = 0; kk < 4; kk++) {
      unsigned a[4] = {pack(s[2 * kk][0], s[2 * kk][1]), pack(s[2 * kk][2], s[2 * kk][3]), pack(s[2 * kk + 1][0], s[2 * kk + 1][1]), pack(s[2 * kk + 1][2], s[2 * kk + 1][3])};
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        unsigned b[4], p = sptr(cv + at(kk * 16 + lane % 16, n + lane / 16));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(p));
        mma(acc[n], a, b[0], b[1]); mma(acc[n + 1], a, b[2], b[3]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float sum = l[h]; sum += __shfl_xor_sync(~0u, sum, 1); sum += __shfl_xor_sync(~0u, sum, 2);
    int row = m0 + warp * 16 + h * 8 + lane / 4;
    if (row < S)
#pragma unroll
      for (int n = 0; n < 8; n++) *(unsigned*)(o + (size_t)row * D + n * 8 + (lane & 3) * 2) = pack(acc[n][h * 2] / sum, acc[n][h * 2 + 1] / sum);
  }
}
