// A structure by value that the function indexes by lane, also where the function calls itself.
struct B { int a[8]; signed char c[5]; };
__device__ __noinline__ int pick(B b, int i) {
  b.a[(i + 1) % 8] = 7;
  return b.a[i % 8] + b.c[i % 5] + b.a[(i + 1) % 8];
}
__device__ __noinline__ int deep(B b, int n) {
  if (n == 0) return b.a[b.c[0] & 3];
  b.a[n % 8] += n;
  b.c[0]++;
  return deep(b, n - 1) + b.a[n % 7];
}
extern "C" __global__ void k(int* o) {
  int i = threadIdx.x;
  B b;
  for (int j = 0; j < 8; j++) b.a[j] = j * i;
  for (int j = 0; j < 5; j++) b.c[j] = j - i;
  o[i] = pick(b, i);
  o[i + 64] = deep(b, i % 6);
}
