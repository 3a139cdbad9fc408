// evo: knob TILE in 8, 16, 32, 64
// evo: launch k grid (ceil_div(N, 16), ceil_div(M, 8)) block (16, 8) shared 0
#define TILE 16
extern "C" __global__ void k(const float* a, const float* b, float* o, int m, int n, int d) {
  const int row_here = blockIdx.y * 8 + threadIdx.y;
  const int row = min(row_here, m - 1);
  const int col_here = blockIdx.x * 16 + threadIdx.x;
  const int col = min(col_here, n - 1);
  const bool inside = row_here < m && col_here < n;
  float s = 0.0f;
  __shared__ float a_tile[8][TILE];
  __shared__ float b_tile[TILE][16];
  for (int i_tile = 0; i_tile < d; i_tile += TILE) {
      for (int at = threadIdx.x; at < TILE; at += 16) {
          const int i = min(i_tile + at, d - 1);
          a_tile[threadIdx.y][at] = a[row * d + i];
      }
      for (int at = threadIdx.y; at < TILE; at += 8) {
          const int i = min(i_tile + at, d - 1);
          b_tile[at][threadIdx.x] = b[i * n + col];
      }
      __syncthreads();
      for (int i = i_tile; i < min(d, i_tile + TILE); ++i) s += a_tile[threadIdx.y][i - i_tile] * b_tile[i - i_tile][threadIdx.x];
      __syncthreads();
  }
  if (inside) o[row * n + col] = s;
}
