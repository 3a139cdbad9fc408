// sums of columns: a thread a column, few blocks
// evo: task column_sum
// evo: launch colsum grid (ceil_div(COLS, 64)) block (64) shared 0
extern "C" __global__ void colsum(const float* __restrict__ m, float* __restrict__ s, int R, int C) {
  int col = blockIdx.x * 64 + threadIdx.x;
  if (col >= C) return;
  float total = 0.f;
  for (int r = 0; r < R; r++) {
    total += m[(size_t)r * C + col];
  }
  s[col] = total;
}
