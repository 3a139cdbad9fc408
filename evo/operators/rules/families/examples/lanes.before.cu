// evo: launch k grid (ceil_div(ROWS, 64)) block (64) shared 0
extern "C" __global__ void k(const float* x, float* o, int rows, int n) {
  const int row = blockIdx.x * 64 + threadIdx.x;
  if (row >= rows) return;
  const float* in = x + (long long)row * n;
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) sum += in[i];
  o[row] = sum;
}
