// Integer products whose sums clamp (m16n8k32) and wrap (the upper half of m16n8k16).
__device__ unsigned column(const signed char* b, int k, int n) {
  unsigned r = 0;
  for (int j = 0; j < 4; j++) r |= (unsigned)(unsigned char)b[(k + j) * 8 + n] << 8 * j;
  return r;
}
extern "C" __global__ void k(const unsigned* a, const signed char* b, const int2* c, int2* d, int2* e) {
  int l = threadIdx.x, g = l / 4, q = l % 4;
  unsigned b0 = column(b, q * 4, g), b1 = column(b, 16 + q * 4, g);
  int2 u = c[g * 4 + q], v = c[(g + 8) * 4 + q], x, y, z;
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=r"(x.x), "=r"(x.y), "=r"(y.x), "=r"(y.y)
      : "r"(a[g * 8 + q]), "r"(a[(g + 8) * 8 + q]), "r"(a[g * 8 + q + 4]), "r"(a[(g + 8) * 8 + q + 4]), "r"(b0), "r"(b1),
        "r"(u.x), "r"(u.y), "r"(v.x), "r"(v.y));
  d[g * 4 + q] = x;
  d[(g + 8) * 4 + q] = y;
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0,%1}, {%2}, {%3}, {%4,%5};"
               : "=r"(z.x), "=r"(z.y) : "r"(a[g * 8 + q]), "r"(b0), "r"(u.x), "r"(u.y));
  e[l] = z;
}
