// evo: knob LANES in 4, 8, 16, 32
// evo: require 64 % 32 == 0
// evo: launch k grid (ceil_div(ROWS, 64 // LANES)) block (64) shared 0
#define LANES 32
extern "C" __global__ void k(const float* x, float* o, int rows, int n) {
  const int row = blockIdx.x * (64 / LANES) + threadIdx.x / LANES;
  const int lane = threadIdx.x % LANES;
  const unsigned lanes = 0xffffffffu >> (32 - LANES) << (threadIdx.x % 32 / LANES * LANES);
  if (row >= rows) return;
  const float* in = x + (long long)row * n;
  float sum = 0.0f;
  for (int i = lane; i < n; i += LANES) sum += in[i];
#pragma unroll
  for (int step = LANES / 2; step > 0; step /= 2) sum += __shfl_xor_sync(lanes, sum, step);
  if (lane == 0) o[row] = sum;
}
