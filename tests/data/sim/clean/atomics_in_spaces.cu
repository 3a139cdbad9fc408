// One atomic whose lanes meet in two buffers and in shared memory; a compare-and-swap loop does the same.
extern "C" __global__ void k(unsigned* x, unsigned* y, unsigned* o) {
  __shared__ unsigned s[2];
  int i = threadIdx.x;
  if (i < 2) s[i] = 0;
  __syncthreads();
  unsigned* p = i % 3 == 0 ? x : i % 3 == 1 ? y : s;
  atomicAdd(p, i + 1);
  unsigned* q = (i & 1 ? x : i & 2 ? y : s) + 1;
  unsigned old = *(volatile unsigned*)q, seen;
  do {
    seen = old;
    old = atomicCAS(q, seen, seen * 3 + 1);
  } while (old != seen);
  __syncthreads();
  if (i < 2) o[i] = s[i];
}
