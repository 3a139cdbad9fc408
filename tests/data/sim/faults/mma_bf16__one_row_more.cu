// Row 16 of 16 rows.
// fault: out_of_bounds
// like: clean/mma_bf16.cu
#include <cuda_bf16.h>
#define K 64
#define KS 16
extern "C" __global__ void k(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
  int g = threadIdx.x / 4, t = threadIdx.x % 4;
  float d[4] = {};
  for (int k0 = 0; k0 < K; k0 += KS) {
    unsigned ra[4], rb[2];
    // Row-major A and column-major B: every register holds adjacent elements along k.
    for (int i = 0; i < 4; i++) ra[i] = *(const unsigned*)(a + (g + 1 + 8 * (i & 1)) * K + k0 + (KS / 8) * t * 1 + (i >> 1) * (KS / 2));  // FAULT
    for (int i = 0; i < 2; i++) rb[i] = *(const unsigned*)(b + g * K + k0 + (KS / 8) * t + i * (KS / 2));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  }
  for (int i = 0; i < 4; i++) c[(g + 8 * (i >> 1)) * 8 + 2 * t + (i & 1)] = d[i];
}
