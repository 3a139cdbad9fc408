// The last row of the halo is not loaded.
// fault: uninitialised
// like: clean/stencil_shared.cu
extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float s[18][18];
  int tx = threadIdx.x, ty = threadIdx.y, c = blockIdx.x * 16 + tx, r = blockIdx.y * 16 + ty;
  for (int v = ty; v < 17; v += 16)
    for (int u = tx; u < 18; u += 16) {
      int rr = blockIdx.y * 16 + v - 1, cc = blockIdx.x * 16 + u - 1;
      s[v][u] = rr >= 0 && cc >= 0 && rr < n && cc < n ? x[rr * n + cc] : 0.f;
    }
  __syncthreads();
  if (r < n && c < n)
    y[r * n + c] = s[ty + 1][tx + 1] * 4 - s[ty][tx + 1] - s[ty + 2][tx + 1] - s[ty + 1][tx] - s[ty + 1][tx + 2];  // FAULT
}
