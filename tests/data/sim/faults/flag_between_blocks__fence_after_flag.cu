// The flag is set before the fence.
// fault: race
// like: clean/flag_between_blocks.cu
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (blockIdx.x == 0) {
    t[threadIdx.x] = x[i];
    __syncthreads();
    if (threadIdx.x == 0) atomicExch(f, 1);
    __threadfence();
  } else {
    if (threadIdx.x == 0) while (atomicAdd(f, 0) == 0) { }
    __threadfence();
    __syncthreads();
  }
  y[i] = t[threadIdx.x];  // FAULT
}
