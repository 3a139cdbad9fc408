// A fence is no barrier for the lanes of a warp.
// fault: race
// like: clean/flag_in_block.cu
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ int s[256];
  s[threadIdx.x] = x[i];
  __threadfence_block();
  y[i] = s[threadIdx.x ^ 1];  // FAULT
}
