// Large values leave holes in the array.
// fault: uninitialised
// like: clean/local_array.cu
extern "C" __global__ void k(const int* x, int* y) {
  int v[8], t = blockIdx.x * 64 + threadIdx.x;
  for (int i = 0; i < 8; i++) {
    int now = x[8 * t + i], j = i;
    for (; j > 0 && v[j - 1] > now; j--) v[j] = v[j - 1];  // FAULT
    if (now < 50) v[j] = now;
  }
  for (int i = 0; i < 8; i++) y[8 * t + i] = v[i];  // FAULT
}
