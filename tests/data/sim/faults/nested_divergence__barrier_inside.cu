// A barrier where some threads of the warp never come.
// fault: barrier
// like: clean/nested_divergence.cu
extern "C" __global__ void k(const int* a, int* o) {
  int i = threadIdx.x, x = a[i] + 100, s = 0, j;
  for (j = 0; j < i % 7 + 1; j++) {
    if (x % (j + 2) == 0) {
      if (j == 3) {
        o[i] = -100 - s;
        return;
      }
      s += j * x;
      __syncthreads();  // FAULT
      continue;
    }
    int m = j;
    do {
      s++;
      m -= 2;
    } while (m > 0 && s % 5 != 0);
    if (s > 40) break;
  }
  if (j == i % 7 + 1) s += 1000;
  o[i] = s;
}
