// evo: launch k grid (ceil_div(N, 64)) block (64) shared 0
extern "C" __global__ void k(const float* a, const float* b, float* o, int n, int m) {
  const int row = blockIdx.x * 64 + threadIdx.x;
  if (row >= n) return;
  float sum = 0.0f;
  for (int i = 0; i < m; ++i)
    sum += a[row] * b[i];
  o[row] = sum;
}
