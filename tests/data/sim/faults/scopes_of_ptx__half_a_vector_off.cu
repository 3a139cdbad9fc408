// The second store begins four bytes early.
// fault: misaligned
// like: clean/scopes_of_ptx.cu
extern "C" __global__ void k(const uint4* x, uint4* y, unsigned* z) {
  int i = threadIdx.x;
  uint4 v;
  asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(x + i));
  unsigned r;
  asm volatile(
      "{\n.reg .u32 t0, t1;\n.reg .pred p, q;\n.reg .b64 w;\n"
      "mov.b64 w, {%1, %2}; mov.b64 {t1, t0}, w; setp.gt.and.u32 p|q, t0, t1, 1;\n"
      "@p add.u32 t0, t0, 5; @!p sub.u32 t0, t0, 5;\n"
      "{ .reg .u32 t0; mov.u32 t0, 77; add.u32 t1, t1, t0; }\n"
      "xor.b32 %0, t0, t1; }"
      : "=r"(r) : "r"(v.x), "r"(v.y));
  z[i] = r;
  asm volatile(
      "{ .reg .b16 a<4>; mov.b32 {a0, a1}, %0; mov.b32 {a2, a3}, %1; mov.b32 %0, {a3, a0}; mov.b32 %1, {a1, a2}; }"
      : "+r"(v.z), "+r"(v.w));
  asm volatile("st.global.v2.u32 [%0], {%1, %2}; st.global.L1::no_allocate.v2.b32 [%0+4], {%3, %4};" ::"l"(y + i),  // FAULT
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w));  // FAULT
}
