// The producer refills the tile while it is read.
// fault: deadlock or race
// like: clean/named_barriers.cu
extern "C" __global__ void k(const float* x, float* y, int steps) {
  __shared__ float s[32];
  int t = threadIdx.x;
  for (int i = 0; i < steps; i++) {
    if (t < 32) {
      s[t] = x[i * 32 + t] * 2;  // FAULT
      asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
      asm volatile("bar.sync 1, 64;" ::: "memory");  // FAULT
      y[i * 32 + t - 32] = s[63 - t];  // FAULT
    }
  }
}
