// A fence waits for nobody.
// fault: race or uninitialised
// like: clean/flag_in_block.cu
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ int s[256];
  s[threadIdx.x] = x[i];  // FAULT
  __threadfence_block();
  y[i] = s[(threadIdx.x + 32) % 256];  // FAULT
  t[i] = 0;
}
