// A fence and an atomic on some other word order nothing between blocks.
// fault: race
// like: clean/flag_between_blocks.cu
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (blockIdx.x == 0) t[threadIdx.x] = x[i];
  __threadfence();
  __syncthreads();
  int ticket = atomicAdd(f + blockIdx.x, 1);
  y[i] = t[threadIdx.x] + ticket;  // FAULT
}
