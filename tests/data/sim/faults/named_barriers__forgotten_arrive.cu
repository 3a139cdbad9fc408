// The consumer waits for nobody.
// fault: deadlock
// like: clean/named_barriers.cu
extern "C" __global__ void k(const float* x, float* y, int steps) {
  __shared__ float s[32];
  int t = threadIdx.x;
  for (int i = 0; i < steps; i++) {
    if (t < 32) {
      if (i) asm volatile("bar.sync 2, 64;" ::: "memory");  // FAULT
      s[t] = x[i * 32 + t] * 2;
    } else {
      asm volatile("bar.sync 1, 64;" ::: "memory");  // FAULT
      y[i * 32 + t - 32] = s[63 - t];
      if (i + 1 < steps) asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
  }
}
