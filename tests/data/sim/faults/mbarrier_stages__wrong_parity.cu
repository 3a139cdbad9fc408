// The reader waits for the phase before.
// fault: uninitialised or race
// like: clean/mbarrier_stages.cu
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned b, unsigned n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(b), "r"(n) : "memory"); }
__device__ void arrive(unsigned b) { asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" :: "r"(b) : "memory"); }
__device__ void wait(unsigned b, unsigned parity) {
  unsigned r;
  do asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "r"(b), "r"(parity) : "memory");
  while (!r);
}
extern "C" __global__ void k(const int* x, int* y, int n) {
  __shared__ alignas(16) int s[2][32];
  __shared__ alignas(8) unsigned long long full[2], empty[2];
  int t = threadIdx.x & 31;
  if (threadIdx.x < 2) { init(at(full + threadIdx.x), 32); init(at(empty + threadIdx.x), 32); }
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int i = 0; i < n; i++) {
      if (i >= 2) wait(at(empty + (i & 1)), (i / 2 - 1) & 1);
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at(&s[i & 1][t])), "l"(x + i * 32 + t) : "memory");
      asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(at(full + (i & 1))) : "memory");
    }
  } else {
    int sum = 0;
    for (int i = 0; i < n; i++) {
      wait(at(full + (i & 1)), (i / 2 & 1) ^ 1);
      sum = sum * 3 + s[i & 1][31 - t];  // FAULT
      arrive(at(empty + (i & 1)));
    }
    y[t] = sum;
  }
}
