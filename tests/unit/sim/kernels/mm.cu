// 32 x 32 shared tiles, fp32.
extern "C" __global__ void mm(const float* a, const float* b, float* c, int n) {
  __shared__ float as[32][32], bs[32][32];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
  float s = 0.f;
  for (int t = 0; t < (n + 31) / 32; t++) {
    int ka = t * 32 + tx, kb = t * 32 + ty;
    as[ty][tx] = row < n && ka < n ? a[row * n + ka] : 0.f;
    bs[ty][tx] = kb < n && col < n ? b[kb * n + col] : 0.f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k++) s += as[ty][k] * bs[k][tx];
    __syncthreads();
  }
  if (row < n && col < n) c[row * n + col] = s;
}
