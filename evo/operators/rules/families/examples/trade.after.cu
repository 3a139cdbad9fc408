// evo: require 64 % 32 == 0
// evo: require 32 % LANES == 0
// evo: knob J_BATCH in 1, 2, 4, 8, 16
// evo: knob LANES in 2, 4, 8, 16
// evo: launch k grid (ceil_div(ROWS, 64)) block (64) shared 0
#define J_BATCH 8
#define LANES 4
extern "C" __global__ void k(const float* a, const float* b, float* o, int rows, int n) {
  const int row_here = blockIdx.x * 64 + threadIdx.x;
  const int row = min(row_here, rows - 1);  // those past the end repeat the last one and do not store
  const int lane = threadIdx.x % LANES;
  const int first_32 = lane * (32 / LANES);
  float x[LANES][32 / LANES];
#pragma unroll
  for (int r = 0; r < LANES; ++r) {
      const int row_of = __shfl_sync(0xffffffffu, row, r, LANES);
      for (int i = 0; i < 32 / LANES; ++i) x[r][i] = a[row_of * 32 + (first_32 + i)];
  }
  float s[LANES][32 / LANES];
#pragma unroll
  for (int r = 0; r < LANES; ++r) {
      for (int i = 0; i < 32 / LANES; ++i) s[r][i] = 0.0f;
  }
  float m = -INFINITY;
  float l = 0.0f;
  for (int j = 0; j < n; j += J_BATCH) {
      float score_all[J_BATCH];
#pragma unroll
      for (int u = 0; u < J_BATCH; ++u) {
          const int j_at = min(j + u, n - 1);
        float score = 0.0f;
        float score_of[LANES] = {};
        for (int i = 0; i < 32 / LANES; ++i) {
            const auto common = b[j_at * 32 + (first_32 + i)];
#pragma unroll
            for (int r = 0; r < LANES; ++r) score_of[r] += x[r][i] * common;
        }
#pragma unroll
        for (int apart = LANES / 2; apart > 0; apart /= 2) {
#pragma unroll
            for (int r = 0; r < LANES / 2; ++r) {
                if (r < apart) {
                    const float mine = lane & apart ? score_of[r + apart] : score_of[r];
                    const float theirs = lane & apart ? score_of[r] : score_of[r + apart];
                    score_of[r] = mine + __shfl_xor_sync(0xffffffffu, theirs, apart);
                }
            }
        }
        score += score_of[0];
          score_all[u] = j + u < n ? score : -INFINITY;
      }
      float top = m;
#pragma unroll
      for (int u = 0; u < J_BATCH; ++u) top = fmaxf(top, score_all[u]);
      const float keep = expf(m - top);
      m = top;
      l *= keep;
      float keep_of[LANES];
#pragma unroll
      for (int r = 0; r < LANES; ++r) keep_of[r] = __shfl_sync(0xffffffffu, keep, r, LANES);
#pragma unroll
    for (int i = 0; i < 32 / LANES; ++i) {
#pragma unroll
        for (int r = 0; r < LANES; ++r) s[r][i] *= keep_of[r];
    }
#pragma unroll
      for (int u = 0; u < J_BATCH; ++u) {
          const int j_at = min(j + u, n - 1);
          const float weight = expf(score_all[u] - top);
          l += weight;
          float weight_of[LANES];
#pragma unroll
          for (int r = 0; r < LANES; ++r) weight_of[r] = __shfl_sync(0xffffffffu, weight, r, LANES);
        for (int i = 0; i < 32 / LANES; ++i) {
            const auto common = b[j_at * 32 + (first_32 + i)];
#pragma unroll
            for (int r = 0; r < LANES; ++r) s[r][i] += weight_of[r] * common;
        }
      }
  }
#pragma unroll
  for (int r = 0; r < LANES; ++r) {
      const float l_of = __shfl_sync(0xffffffffu, l, r, LANES);
      const int row_of = __shfl_sync(0xffffffffu, row, r, LANES);
      if (row_here - lane + r < rows) {
          for (int i = 0; i < 32 / LANES; ++i) o[row_of * 32 + (first_32 + i)] = s[r][i] / l_of;
      }
  }
}
