// The right neighbour of the last element.
// fault: out_of_bounds
// like: clean/stencil_global.cu
extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  float l = i ? x[i - 1] : 0.f, r = x[i + 1];  // FAULT
  y[i] = 0.25f * l + 0.5f * x[i] + 0.25f * r;
}
