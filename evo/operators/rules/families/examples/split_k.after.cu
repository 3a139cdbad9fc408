// evo: knob SPLITS in 1, 2, 4, 8, 16
// evo: scratch partial float32 [SPLITS, N] init=poison
// evo: launch k grid (ceil_div(N, 64), 1, SPLITS) block (64) shared 0
// evo: launch k_combine grid (ceil_div(N, 64)) block (64) shared 0
#define SPLITS 4
extern "C" __global__ void k(const float* a, float* o, float* partial, int n, int m) {
  const int row = blockIdx.x * 64 + threadIdx.x;
  if (row >= n) return;
  const float* mine = a + row;
  float s = 0.0f;
  const int j_part = (m + SPLITS - 1) / SPLITS;
  for (int j = (int)blockIdx.z * j_part; j < min(m, (int)blockIdx.z * j_part + j_part); ++j) s += mine[j * n];
  partial[(long long)blockIdx.z * n + row] = s;
}

extern "C" __global__ void k_combine(const float* a, float* o, float* partial, int n, int m) {
  const int row = blockIdx.x * 64 + threadIdx.x;
  if (row >= n) return;
  float s = 0.0f;
  for (int part = 0; part < SPLITS; ++part) s += partial[(long long)part * n + row];
  o[row] = s * 2.0f;
}
