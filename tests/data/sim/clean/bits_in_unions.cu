// Unions and bit fields, through registers and through memory.
union U { float f; unsigned u; unsigned char c[4]; struct { unsigned m : 23, e : 8, s : 1; } b; };
struct Bits { int a : 5; unsigned b : 11; long long c : 40; bool d : 1; short e; };
extern "C" __global__ void k(const float* x, int* o, Bits* z) {
  int i = threadIdx.x;
  U u;
  u.f = x[i];
  u.b.e ^= 1;
  int c = u.c[i & 3];
  u.c[(i + 1) & 3] ^= 0x11;
  Bits q;
  q.a = i, q.b = i * 7, q.c = (long long)i << 33, q.d = i & 1, q.e = -i;
  z[i] = q;
  o[i] = c + (int)(u.u >> 3);
  o[i + 128] = z[i].a + z[i].b + (int)(z[i].c >> 30) + z[i].d + z[i].e;
}
