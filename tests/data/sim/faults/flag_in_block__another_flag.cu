// The reader looks at another flag than the one that was set after the fence.
// fault: race
// like: clean/flag_in_block.cu
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ int s[256];
  __shared__ volatile int ready, other;
  if (threadIdx.x == 0) ready = other = 0;
  __syncthreads();
  if (threadIdx.x < 32) {
    __threadfence_block();
    if (threadIdx.x == 0) ready = 1;
    s[threadIdx.x] = x[i];
    __threadfence_block();
    if (threadIdx.x == 0) other = 1;
  } else {
    while (ready == 0) { }
    __threadfence_block();
  }
  y[i] = s[threadIdx.x % 32];  // FAULT
  t[i] = 0;
}
