// The tile in use is refilled.
// fault: race
// like: clean/matmul_double_buffer.cu
extern "C" __global__ void k(const float* a, const float* b, float* c, int n) {
  __shared__ float as[2][16][16], bs[2][16][16];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  float s = 0;
  as[0][ty][tx] = a[row * n + tx];
  bs[0][ty][tx] = b[ty * n + col];
  for (int k0 = 0, now = 0; k0 < n; k0 += 16, now ^= 1) {
    __syncthreads();
    if (k0 + 16 < n) {
      as[now][ty][tx] = a[row * n + k0 + 16 + tx];  // FAULT
      bs[now ^ 1][ty][tx] = b[(k0 + 16 + ty) * n + col];
    }
    for (int j = 0; j < 16; j++) s += as[now][ty][j] * bs[now][j][tx];  // FAULT
  }
  c[row * n + col] = s;
}
