// evo: launch k grid (ceil_div(N, 64)) block (64) shared 0
extern "C" __global__ void k(const float* a, float* o, int n) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  o[i] = a[i] * 2.0f;
}
