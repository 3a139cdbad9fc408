// The tile is read before it is there.
// fault: race or uninitialised
// like: clean/matmul_tiled.cu
extern "C" __global__ void k(const float* a, const float* b, float* c, int n) {
  __shared__ float as[16][16], bs[16][16];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  float s = 0;
  for (int k0 = 0; k0 < n; k0 += 16) {
    as[ty][tx] = row < n && k0 + tx < n ? a[row * n + k0 + tx] : 0.f;
    bs[ty][tx] = col < n && k0 + ty < n ? b[(k0 + ty) * n + col] : 0.f;  // FAULT
    for (int j = 0; j < 16; j++) s += as[ty][j] * bs[j][tx];  // FAULT
    __syncthreads();
  }
  if (row < n && col < n) c[row * n + col] = s;
}
