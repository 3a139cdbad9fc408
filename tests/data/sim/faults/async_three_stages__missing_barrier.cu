// One warp's copies are read by the other.
// fault: race or uninitialised
// like: clean/async_three_stages.cu
extern "C" __global__ void k(const float4* x, float4* y, int tiles) {
  __shared__ float4 s[3][64];
  int t = threadIdx.x;
  const float4* from = x + blockIdx.x * tiles * 64;
  for (int i = 0; i < 2; i++) {
    unsigned p = (unsigned)__cvta_generic_to_shared(&s[i][t]);
    if (i < tiles) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(p), "l"(from + i * 64 + t) : "memory");  // FAULT
    asm volatile("cp.async.commit_group;");
  }
  float4 sum = {0, 0, 0, 0};
  for (int i = 0; i < tiles; i++) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    unsigned p = (unsigned)__cvta_generic_to_shared(&s[(i + 2) % 3][t]);
    if (i + 2 < tiles) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(p), "l"(from + (i + 2) * 64 + t) : "memory");  // FAULT
    asm volatile("cp.async.commit_group;");
    float4 v = s[i % 3][63 - t];  // FAULT
    sum.x += v.x; sum.y += v.y; sum.z += v.z; sum.w += v.w;
  }
  y[blockIdx.x * 64 + t] = sum;
}
