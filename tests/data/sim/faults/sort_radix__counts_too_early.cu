// The counts of the warps are read before all are there.
// fault: race or uninitialised
// like: clean/sort_radix.cu
extern "C" __global__ void k(unsigned* x) {
  __shared__ unsigned a[256];
  __shared__ unsigned w[8];
  int i = threadIdx.x, l = i & 31, wi = i >> 5;
  a[i] = x[i];
  __syncthreads();
  for (int b = 0; b < 32; b++) {
    unsigned v = a[i];
    bool one = (v >> b) & 1;
    unsigned m = __ballot_sync(~0u, !one);
    if (l == 0) w[wi] = __popc(m);  // FAULT
    unsigned before = 0, zeros = 0;
    for (int j = 0; j < 8; j++) {
      if (j < wi) before += w[j];  // FAULT
      zeros += w[j];  // FAULT
    }
    unsigned z = before + __popc(m & ((1u << l) - 1));
    a[one ? zeros + i - z : z] = v;
    __syncthreads();
  }
  x[i] = a[i];
}
