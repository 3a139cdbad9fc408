// As adopted from bodies.cu.
// evo: task bodies
// evo: launch accelerations grid (ceil_div(n, 128)) block (128) shared 0 args (x, y, z, m, ax, ay, az, n)
#define SOFTENING 1e-3f

extern "C" __global__ void accelerations(const float* x, const float* y, const float* z, const float* m, float* ax, float* ay, float* az, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float px = x[i], py = y[i], pz = z[i];
  float fx = 0.f, fy = 0.f, fz = 0.f;
  for (int j = 0; j < n; ++j) {
    float dx = x[j] - px, dy = y[j] - py, dz = z[j] - pz;
    float d2 = dx * dx + dy * dy + dz * dz + SOFTENING;
    float inv = rsqrtf(d2);
    float s = m[j] * inv * inv * inv;
    fx += dx * s; fy += dy * s; fz += dz * s;
  }
  ax[i] = fx; ay[i] = fy; az[i] = fz;
}
