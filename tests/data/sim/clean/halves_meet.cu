// The two halves of a warp meet on their own.
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ int s[256];
  int lane = threadIdx.x % 32;
  s[threadIdx.x] = x[i];
  __syncwarp(lane < 16 ? 0xffff : 0xffff0000);
  y[i] = s[threadIdx.x ^ 1];
  t[i] = 0;
}
