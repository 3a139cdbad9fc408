// A vote orders no memory.
// fault: race
// like: clean/lanes_exchange.cu
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ int s[256];
  s[threadIdx.x] = x[i];
  int other = __shfl_xor_sync(~0u, x[i], 1);
  other += __any_sync(~0u, other == 7);
  y[i] = s[threadIdx.x ^ 1] + other;  // FAULT
  t[i] = 0;
}
