// Every block reads the number while others still add to it.
// fault: race
// like: clean/count_of_blocks.cu
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(f, x[i] & 1);  // FAULT
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = f[0];
}
