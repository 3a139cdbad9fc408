// The lock is released before the counter.
// fault: race
// like: clean/spin_lock.cu
extern "C" __global__ void k(int* lock, int* counter, int* y) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) { }
    int v = *counter;  // FAULT
    *counter = v + 1;  // FAULT
    atomicExch(lock, 0);
    y[blockIdx.x] = 1;
  }
}
