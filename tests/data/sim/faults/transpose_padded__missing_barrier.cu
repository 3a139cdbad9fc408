// The tile is read while it is written.
// fault: race or uninitialised
// like: clean/transpose_padded.cu
extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {
  __shared__ float s[32][33];
  int c = blockIdx.x * 32 + threadIdx.x, r0 = blockIdx.y * 32;
  for (int j = threadIdx.y; j < 32; j += 8) if (c < cols && r0 + j < rows) s[j][threadIdx.x] = x[(r0 + j) * cols + c];
  int r = r0 + threadIdx.x, c0 = blockIdx.x * 32;
  for (int j = threadIdx.y; j < 32; j += 8) if (r < rows && c0 + j < cols) y[(c0 + j) * rows + r] = s[threadIdx.x][j];  // FAULT
}
