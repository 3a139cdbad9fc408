// The lock is never given back.
// fault: deadlock
// like: clean/lock_in_warp.cu
extern "C" __global__ void k(int* lock, volatile int* counter) {
  while (atomicCAS(lock, 0, 1) != 0) { }  // FAULT
  __threadfence();
  *counter = *counter + 1;
  __threadfence();
}
