// evo: launch k grid (M, N) block (32) shared 0
extern "C" __global__ void k(const float* a, float* o) {
  o[blockIdx.x * 8 + blockIdx.y] = a[blockIdx.y * 8 + blockIdx.x];
}
