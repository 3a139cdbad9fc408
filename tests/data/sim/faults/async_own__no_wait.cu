// The copy is never waited for.
// fault: uninitialised
// like: clean/async_own.cu
extern "C" __global__ void k(const float* x, float* y) {
  __shared__ float s[128];
  int t = threadIdx.x;
  unsigned p = (unsigned)__cvta_generic_to_shared(&s[t]);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(p), "l"(x + t) : "memory");
  __syncwarp();
  y[t] = s[t ^ 31];  // FAULT
}
