// A warp overwrites what the one before it still reads.
// fault: race
// like: clean/exchange_in_block.cu
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  t[i] = x[i];
  __syncthreads();
  int next = t[i + (threadIdx.x < 255)];
  t[i] = next + 1;  // FAULT
  y[i] = next;
}
