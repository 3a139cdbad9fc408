// evo: task quantise_rows
// evo: launch quantise grid (ROWS) block (256) shared 0
// symmetric int8 quantisation per row: block-wide absmax by a tree in shared memory, then scale and round
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__device__ __forceinline__ signed char to_int8(float v, float inv) {
  float r = rintf(v * inv);
  return (signed char)fminf(fmaxf(r, -127.f), 127.f);
}

extern "C" __global__ void quantise(const float* __restrict__ x, signed char* __restrict__ q, float* __restrict__ scale,
                                    int rows, int cols) {
  __shared__ float sdata[256];
  cg::thread_block block = cg::this_thread_block();
  const int row = blockIdx.x;
  unsigned int tid = block.thread_rank();
  float amax = 0.f;
  for (int c = tid; c < cols; c += block.size()) {
    amax = fmaxf(amax, fabsf(x[(size_t)row * cols + c]));
  }
  sdata[tid] = amax;
  block.sync();
  for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) sdata[tid] = fmaxf(sdata[tid], sdata[tid + s]);
    __syncthreads();
  }
  const float inv = 127.f / sdata[0];
  for (int c = tid; c < cols; c += blockDim.x) q[(size_t)row * cols + c] = to_int8(x[(size_t)row * cols + c], inv);
  if (tid == 0) scale[row] = sdata[0] / 127.f;
}
