// evo: launch k grid (1) block (32) shared 0
extern "C" __global__ void k(const float* a, float* o, float x, int n) {
  for (int i = 0; i < n; ++i) o[i] = a[i] * x;
}
