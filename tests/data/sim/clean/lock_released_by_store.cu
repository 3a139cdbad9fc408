// A lock of a block, as a binary semaphore has it: taken by an exchange, given back by a store that releases.
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ int is_free, total;
  if (threadIdx.x == 0) is_free = 1, total = 0;
  __syncthreads();
  unsigned at = (unsigned)__cvta_generic_to_shared(&is_free);
  if (threadIdx.x % 32 == 0) {
    int was = 0;
    while (!was) asm volatile("atom.exch.acquire.cta.shared.b32 %0, [%1], 0;" : "=r"(was) : "r"(at) : "memory");
    total += x[i];
    asm volatile("st.release.cta.shared.b32 [%0], 1;" :: "r"(at) : "memory");
  }
  __syncthreads();
  y[i] = total;
  t[i] = 0;
}
