// evo: require shared <= chip.shared_per_block_optin
// evo: launch k grid (1) block (32) shared (N * 4)
extern "C" __global__ void k(const float* a, float* o, int n) {
    extern __shared__ float a_kept[];
  float s = 0.0f;
  for (int i = threadIdx.x; i < n; i += 32) { a_kept[i] = a[i]; s += a_kept[i]; }
  for (int i = threadIdx.x; i < n; i += 32) o[i] = a_kept[i] / s;
}
