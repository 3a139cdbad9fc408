// evo: knob BLOCKS_PER_SM in 2, 4, 8, 16
// evo: launch k grid (min(ceil_div(N, 32), chip.sms * BLOCKS_PER_SM)) block (32) shared 0
#define BLOCKS_PER_SM 8
extern "C" __global__ void k(const float* a, float* o, int n) {
  for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += (int)gridDim.x * (32)) {
  o[i] = a[i];
  }
}
