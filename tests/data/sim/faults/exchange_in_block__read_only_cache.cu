// The read-only cache need not see what the launch has written.
// fault: race
// like: clean/exchange_in_block.cu
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  t[i] = x[i] + 1;
  __syncthreads();
  y[i] = __ldg(t + (i ^ 32));  // FAULT
}
