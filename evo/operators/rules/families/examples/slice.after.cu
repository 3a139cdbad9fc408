// evo: knob LANES in 4, 8, 16, 32
// evo: require 64 % 32 == 0
// evo: require 32 % LANES == 0
// evo: launch k grid (ceil_div(ROWS, 64 // LANES)) block (64) shared 0
#define LANES 4
extern "C" __global__ void k(const float* x, float* o, int rows) {
  const int row = blockIdx.x * (64 / LANES) + threadIdx.x / LANES;
  const int lane = threadIdx.x % LANES;
  const unsigned lanes = 0xffffffffu >> (32 - LANES) << (threadIdx.x % 32 / LANES * LANES);
  const int first_32 = lane * (32 / LANES);
  if (row >= rows) return;
  float v[32 / LANES];
  float sum = 0.0f;
  for (int i = 0; i < 32 / LANES; ++i) v[i] = x[row * 32 + (first_32 + i)];
  for (int i = 0; i < 32 / LANES; ++i) sum += v[i];
#pragma unroll
  for (int step = LANES / 2; step > 0; step /= 2) sum += __shfl_xor_sync(lanes, sum, step);
  for (int i = 0; i < 32 / LANES; ++i) o[row * 32 + (first_32 + i)] = v[i] / sum;
}
