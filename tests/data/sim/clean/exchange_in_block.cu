// Warps of a block exchange values through global memory.
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  t[i] = x[i] + 1;
  __syncthreads();
  y[i] = t[i ^ 32];
}
