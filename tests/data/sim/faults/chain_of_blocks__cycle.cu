// The last block waits for the first.
// fault: deadlock
// like: clean/chain_of_blocks.cu
extern "C" __global__ void k(volatile int* flag, volatile int* sum, int* y) {
  int b = blockIdx.x, n = gridDim.x;
  if (threadIdx.x == 0) {
    while (flag[(b + 1) % n] == 0) { }  // FAULT
    __threadfence();
    sum[b] = (b < n - 1 ? sum[b + 1] : 0) + b;
    __threadfence();
    flag[b] = 1;
    y[b] = sum[b];
  }
}
