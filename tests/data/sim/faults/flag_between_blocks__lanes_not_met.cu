// All lanes of a warp fence, but they do not meet before one of them sets the flag.
// fault: race
// like: clean/flag_between_blocks.cu
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (blockIdx.x == 0) {
    if (threadIdx.x < 32)
      for (int j = threadIdx.x; j < 256; j += 32) t[j] = x[j];
    __threadfence();
    if (threadIdx.x == 0) atomicExch(f, 1);
    __syncthreads();
  } else {
    if (threadIdx.x == 0) while (atomicAdd(f, 0) == 0) { }
    __threadfence();
    __syncthreads();
  }
  y[i] = t[threadIdx.x];  // FAULT
}
