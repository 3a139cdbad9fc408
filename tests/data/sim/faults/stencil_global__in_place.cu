// Neighbours across blocks are overwritten.
// fault: race
// like: clean/stencil_global.cu
// writable: 0
extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  float l = i ? x[i - 1] : 0.f, r = i + 1 < n ? x[i + 1] : 0.f;  // FAULT
  ((float*)x)[i] = 0.25f * l + 0.5f * x[i] + 0.25f * r;  // FAULT
}
