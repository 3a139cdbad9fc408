// cp.async that leaves zeros where a predicate says that the source is to be ignored.
extern "C" __global__ void k(const float* x, float4* y, int n) {
  __shared__ float4 s[32];
  int i = threadIdx.x;
  unsigned to = __cvta_generic_to_shared(&s[i]);
  asm volatile(
      "{ .reg .pred p; setp.ge.s32 p, %2, %3; cp.async.ca.shared.global.L2::64B [%0], [%1], 16, p; }" ::"r"(to),
      "l"(x + 4 * (i < n ? i : 0)), "r"(i), "r"(n));
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncwarp();
  y[31 - i] = s[i];
}
