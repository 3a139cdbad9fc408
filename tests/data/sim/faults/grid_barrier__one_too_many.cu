// The counter waits for one block more than there are.
// fault: deadlock
// like: clean/grid_barrier.cu
extern "C" __global__ void k(const int* x, volatile int* a, volatile int* b, unsigned* count) {
  int n = gridDim.x * blockDim.x, t = blockIdx.x * blockDim.x + threadIdx.x;
  a[t] = x[t] * 2;
  for (int r = 0; r < 3; r++) {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(count, 1);
      while (atomicAdd(count, 0) < (r + 1) * gridDim.x + 1) { }  // FAULT
      __threadfence();
    }
    __syncthreads();
    volatile int* from = r & 1 ? b : a;
    volatile int* to = r & 1 ? a : b;
    to[t] = from[(t + blockDim.x) % n] + 1;
  }
}
