// evo: knob ROW_REPEAT in 1, 2, 4, 8
// evo: launch k grid (ceil_div(N, 64 * ROW_REPEAT)) block (64) shared 0
#define ROW_REPEAT 2
extern "C" __global__ void k(const float* a, const float* b, float* o, int n, int m) {
  const int row = blockIdx.x * (64 * ROW_REPEAT) + threadIdx.x;
  int row_at[ROW_REPEAT];  // those past the end repeat the last one and are not stored
#pragma unroll
  for (int c = 0; c < ROW_REPEAT; ++c) row_at[c] = min(row + c * 64, n - 1);
  if (row >= n) return;
  float sum[ROW_REPEAT];
#pragma unroll
  for (int c = 0; c < ROW_REPEAT; ++c) sum[c] = 0.0f;
  for (int i = 0; i < m; ++i)
    {
#pragma unroll
        for (int c = 0; c < ROW_REPEAT; ++c) sum[c] += a[row_at[c]] * b[i];
    }
#pragma unroll
  for (int c = 0; c < ROW_REPEAT; ++c) if (row + c * 64 < n) o[row_at[c]] = sum[c];
}
