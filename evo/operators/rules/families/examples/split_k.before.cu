// evo: launch k grid (ceil_div(N, 64)) block (64) shared 0
extern "C" __global__ void k(const float* a, float* o, int n, int m) {
  const int row = blockIdx.x * 64 + threadIdx.x;
  if (row >= n) return;
  const float* mine = a + row;
  float s = 0.0f;
  for (int j = 0; j < m; ++j) s += mine[j * n];
  o[row] = s * 2.0f;
}
