// The lanes of the warp fence, but do not meet before one of them sets the flag.
// fault: race
// like: clean/flag_in_block.cu
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ int s[256];
  __shared__ volatile int ready;
  if (threadIdx.x == 0) ready = 0;
  __syncthreads();
  if (threadIdx.x < 32) {
    s[threadIdx.x] = x[i];
    __threadfence_block();
    if (threadIdx.x == 0) ready = 1;
  } else {
    while (ready == 0) { }
    __threadfence_block();
  }
  y[i] = s[threadIdx.x % 32];  // FAULT
  t[i] = 0;
}
