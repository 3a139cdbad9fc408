// Only the lower half has met; the upper one reads as well.
// fault: race
// like: clean/halves_meet.cu
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ int s[256];
  int lane = threadIdx.x % 32;
  s[threadIdx.x] = x[i];
  if (lane < 16) __syncwarp(0xffff);
  y[i] = s[threadIdx.x ^ 1];  // FAULT
  t[i] = 0;
}
