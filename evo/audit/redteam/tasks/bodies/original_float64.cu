// The original with double for float: what it computes before it is rounded.
// evo: task bodies
// evo: launch accelerations grid (ceil_div(n, 128)) block (128) shared 0 args (x, y, z, m, ax, ay, az, n)
 
 
 
#define SOFTENING 1e-3

extern "C" __global__ void accelerations(const double* x, const double* y, const double* z, const double* m, double* ax, double* ay, double* az, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double px = x[i], py = y[i], pz = z[i];
  double fx = 0., fy = 0., fz = 0.;
  for (int j = 0; j < n; ++j) {
    double dx = x[j] - px, dy = y[j] - py, dz = z[j] - pz;
    double d2 = dx * dx + dy * dy + dz * dz + SOFTENING;
    double inv = rsqrt(d2);
    double s = m[j] * inv * inv * inv;
    fx += dx * s; fy += dy * s; fz += dz * s;
  }
  ax[i] = fx; ay[i] = fy; az[i] = fz;
}
