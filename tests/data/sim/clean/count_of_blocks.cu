// All blocks add to one number; the last one reads it.
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(f, x[i] & 1);
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(f + 1, 1) == gridDim.x - 1;
  __syncthreads();
  if (last && threadIdx.x == 0) { __threadfence(); y[0] = f[0]; }
  t[i] = 0;
  atomicAdd(y + 1 + threadIdx.x % 7, 1);
}
