// evo: launch k grid (ceil_div(ROWS, 64)) block (64) shared 0
extern "C" __global__ void k(const float* x, float* o, int rows) {
  const int row = blockIdx.x * 64 + threadIdx.x;
  if (row >= rows) return;
  float v[32];
  float sum = 0.0f;
  for (int i = 0; i < 32; ++i) v[i] = x[row * 32 + i];
  for (int i = 0; i < 32; ++i) sum += v[i];
  for (int i = 0; i < 32; ++i) o[row * 32 + i] = v[i] / sum;
}
