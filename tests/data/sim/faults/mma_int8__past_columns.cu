// The last step reads int8 beyond the last row.
// fault: out_of_bounds
// like: clean/mma_int8.cu
#define K 64
extern "C" __global__ void k(const signed char* a, const signed char* b, int* c) {
  int g = threadIdx.x / 4, t = threadIdx.x % 4, d[4] = {};
  for (int k0 = 0; k0 < K; k0 += 32) {
    unsigned ra[4], rb[2];
    for (int i = 0; i < 4; i++) ra[i] = *(const unsigned*)(a + (g + 8 * (i & 1)) * K + k0 + 4 * t + (i >> 1) * 16);
    for (int i = 0; i < 2; i++) rb[i] = *(const unsigned*)(b + g * K + k0 + 4 * t + i * 32);  // FAULT
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  }
  for (int i = 0; i < 4; i++) c[(g + 8 * (i >> 1)) * 8 + 2 * t + (i & 1)] = d[i];
}
