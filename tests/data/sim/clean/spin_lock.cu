// A lock around a plain counter: compare-and-swap, fence, work, fence, release.
extern "C" __global__ void k(int* lock, int* counter, int* y) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) { }
    __threadfence();
    int v = *counter;
    *counter = v + 1;
    __threadfence();
    atomicExch(lock, 0);
    y[blockIdx.x] = 1;
  }
}
