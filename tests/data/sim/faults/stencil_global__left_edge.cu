// The left neighbour of element 0.
// fault: out_of_bounds
// like: clean/stencil_global.cu
extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  float l = x[i - 1],  // FAULT
     r = i + 1 < n ? x[i + 1] : 0.f;
  y[i] = 0.25f * l + 0.5f * x[i] + 0.25f * r;
}
