// More weights than the constant holds.
// fault: out_of_bounds
// like: clean/convolution_constant.cu
__constant__ float weight[5] = {1, 4, 6, 4, 1};
extern "C" __global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  float s = 0;
  for (int j = -2; j <= n / 100; j++) if (i + j >= 0 && i + j < n) s += weight[j + 2] * x[i + j];  // FAULT
  y[i] = s / 16;
}
