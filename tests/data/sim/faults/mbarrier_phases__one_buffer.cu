// One buffer needs a second phase between reading and writing.
// fault: race
// like: clean/mbarrier_phases.cu
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned long long arrive(unsigned b) {
  unsigned long long s;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(s) : "r"(b) : "memory");
  return s;
}
__device__ bool over(unsigned b, unsigned long long s) {
  unsigned r;
  asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "r"(b), "l"(s) : "memory");
  return r;
}
extern "C" __global__ void k(const int* x, int* y) {
  __shared__ int s[2][128];
  __shared__ alignas(8) unsigned long long bar;
  int t = threadIdx.x, sum = 0;
  unsigned b = at(&bar);
  if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 128;" :: "r"(b) : "memory");
  __syncthreads();
  for (int r = 0; r < 6; r++) {
    s[0][t] = x[r * 128 + t];  // FAULT
    unsigned long long state = arrive(b);
    while (!over(b, state)) { }
    sum = sum * 3 + s[0][127 - t];  // FAULT
  }
  y[t] = sum;
}
