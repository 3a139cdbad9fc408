// Arguments and results narrower than a register, or widened as they are read, and a small structure by value.
struct Z { signed char a; unsigned char b; short c; bool d; };
__device__ __noinline__ int all(signed char a, unsigned char b, short s, bool q, unsigned short u, long long z) {
  return a * 3 + b * 5 + s * 7 + q * 11 + u * 13 + (int)z;
}
__device__ __noinline__ signed char byte(int i) { return (signed char)i; }
__device__ __noinline__ long long wide(long long z, int v) { return z + v; }
__device__ __noinline__ short half(int i) { return (short)(i * 1000); }
__device__ __noinline__ bool third(int i) { return i % 3 == 0; }
__device__ __noinline__ Z next(Z z, int i) {
  z.a -= i, z.b += i, z.c *= i, z.d = !z.d;
  return z;
}
extern "C" __global__ void k(const int* x, int* o) {
  int i = threadIdx.x, v = x[i];
  Z z{(signed char)v, (unsigned char)v, (short)v, (v & 1) != 0};
  z = next(z, i);
  o[i] = all(v, v, v, v & 1, v, v) + byte(v) * 17 + half(i) + third(i) * 5 + (int)(wide(i, v) >> 32) * 19 + z.a + z.b + z.c + z.d;
}
