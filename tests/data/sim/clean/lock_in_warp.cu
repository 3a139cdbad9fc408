// Every lane takes the same lock: who has it goes on while the rest of its warp still turns.
extern "C" __global__ void k(int* lock, volatile int* counter) {
  while (atomicCAS(lock, 0, 1) != 0) { }
  __threadfence();
  *counter = *counter + 1;
  __threadfence();
  atomicExch(lock, 0);
}
