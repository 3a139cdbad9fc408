// evo: launch k grid (ceil_div(N, 128)) block (128) shared 0
extern "C" __global__ void k(const float* a, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = a[i];
}
