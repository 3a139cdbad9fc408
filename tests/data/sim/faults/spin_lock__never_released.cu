// The second block spins forever.
// fault: deadlock
// like: clean/spin_lock.cu
extern "C" __global__ void k(int* lock, int* counter, int* y) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) { }  // FAULT
    __threadfence();
    int v = *counter;
    *counter = v + 1;
    __threadfence();
    y[blockIdx.x] = 1;
  }
}
