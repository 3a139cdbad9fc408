// evo: launch k grid (N, M) block (32) shared 0
extern "C" __global__ void k(const float* a, float* o) {
  o[blockIdx.y * 8 + blockIdx.x] = a[blockIdx.x * 8 + blockIdx.y];
}
