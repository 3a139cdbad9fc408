// evo: launch k grid (ceil_div(ROWS, 64)) block (64) shared 0
extern "C" __global__ void k(const float* a, const float* b, float* o, int rows, int n) {
  const int row = blockIdx.x * 64 + threadIdx.x;
  if (row >= rows) return;
  float x[32];
  for (int i = 0; i < 32; ++i) x[i] = a[row * 32 + i];
  float s[32];
  for (int i = 0; i < 32; ++i) s[i] = 0.0f;
  float m = -INFINITY;
  float l = 0.0f;
  for (int j = 0; j < n; ++j) {
    float score = 0.0f;
    for (int i = 0; i < 32; ++i) score += x[i] * b[j * 32 + i];
    const float top = fmaxf(m, score);
    const float keep = expf(m - top);
    const float weight = expf(score - top);
    m = top;
    l = l * keep + weight;
    for (int i = 0; i < 32; ++i) s[i] = s[i] * keep + weight * b[j * 32 + i];
  }
  for (int i = 0; i < 32; ++i) o[row * 32 + i] = s[i] / l;
}
