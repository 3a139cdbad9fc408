// The warps do not wait for one another.
// fault: race
// like: clean/exchange_in_block.cu
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  t[i] = x[i] + 1;  // FAULT
  y[i] = t[i ^ 32];
}
