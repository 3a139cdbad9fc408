// The copy reads where its predicate used to forbid it.
// fault: out_of_bounds
// like: clean/copy_ignored.cu
extern "C" __global__ void k(const float* x, float4* y, int n) {
  __shared__ float4 s[32];
  int i = threadIdx.x;
  unsigned to = __cvta_generic_to_shared(&s[i]);
  asm volatile(
      "{ .reg .pred p; setp.ge.s32 p, %2, 32; cp.async.ca.shared.global.L2::64B [%0], [%1], 16, p; }" ::"r"(to),  // FAULT
      "l"(x + 4 * i), "r"(i), "r"(n));  // FAULT
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncwarp();
  y[31 - i] = s[i];
}
