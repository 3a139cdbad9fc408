// Eight warps add to one word without an atomic.
// fault: race
// like: clean/count_of_blocks.cu
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int odd = __popc(__ballot_sync(~0u, x[i] & 1));
  if (threadIdx.x % 32 == 0) y[blockIdx.x] += odd;  // FAULT
}
