// evo: launch k grid (ceil_div(N, 16), ceil_div(M, 8)) block (16, 8) shared 0
extern "C" __global__ void k(const float* a, const float* b, float* o, int m, int n, int d) {
  const int row = blockIdx.y * 8 + threadIdx.y;
  const int col = blockIdx.x * 16 + threadIdx.x;
  if (row >= m || col >= n) return;
  float s = 0.0f;
  for (int i = 0; i < d; ++i) s += a[row * d + i] * b[i * n + col];
  o[row * n + col] = s;
}
