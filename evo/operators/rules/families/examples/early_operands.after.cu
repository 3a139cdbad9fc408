// evo: knob STEPS in 1, 2, 4
// evo: launch k grid (1) block (32) shared 0
#define STEPS 4
extern "C" __global__ void k(const float* __restrict__ a, const float* __restrict__ w, float* __restrict__ o, int n) {
  float w_early[STEPS] = {};
#pragma unroll
  for (int i = 0; i < STEPS; ++i) {
      const int at = threadIdx.x + i * 32;
      if (at < n) w_early[i] = w[at];
  }
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += 32) sum += a[i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  for (int i = 0; i < STEPS; ++i) {
    const int at = threadIdx.x + i * 32;
    if (at < n) o[at] = sum * w_early[i];
  }
}
