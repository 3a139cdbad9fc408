// evo: knob J_BATCH in 2, 4, 8, 16
// evo: launch k grid (1) block (32) shared 0
#define J_BATCH 4
extern "C" __global__ void k(const float* a, float* o, float x, int n) {
  float m = -INFINITY, l = 0.0f;
  float s[4] = {0};
  for (int j = 0; j < n; j += J_BATCH) {
      float score_all[J_BATCH];
#pragma unroll
      for (int u = 0; u < J_BATCH; ++u) {
          const int j_at = min(j + u, n - 1);
        float score = a[j_at] * x;
          score_all[u] = j + u < n ? score : -INFINITY;
      }
      float top = m;
#pragma unroll
      for (int u = 0; u < J_BATCH; ++u) top = fmaxf(top, score_all[u]);
      const float keep = expf(m - top);
      m = top;
      l *= keep;
#pragma unroll
      for (int i = 0; i < 4; ++i) s[i] *= keep;
#pragma unroll
      for (int u = 0; u < J_BATCH; ++u) {
          const int j_at = min(j + u, n - 1);
          const float weight = expf(score_all[u] - top);
          l += weight;
#pragma unroll
          for (int i = 0; i < 4; ++i) s[i] += weight * a[j_at * 4 + i];
      }
  }
  o[0] = s[0] / l;
}
