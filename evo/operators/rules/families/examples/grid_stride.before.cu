// evo: launch k grid (ceil_div(N, 32)) block (32) shared 0
extern "C" __global__ void k(const float* a, float* o, int n) {
  const int i = blockIdx.x * 32 + threadIdx.x;
  if (i >= n) return;
  o[i] = a[i];
}
