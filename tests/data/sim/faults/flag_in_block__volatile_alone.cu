// A volatile flag without a fence before it tells nothing of what was written before.
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
    __syncwarp();
    if (threadIdx.x == 0) ready = 1;
  } else {
    while (ready == 0) { }
    __threadfence_block();
  }
  y[i] = s[threadIdx.x % 32];  // FAULT
  t[i] = 0;
}
