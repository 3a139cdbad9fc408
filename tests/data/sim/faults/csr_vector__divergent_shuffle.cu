// Only the lower lanes run the shuffle.
// fault: warp_sync
// like: clean/csr_vector.cu
extern "C" __global__ void k(const int* start, const int* col, const float* val, const float* x, float* y, int rows) {
  int r = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (r >= rows) return;
  float s = 0;
  for (int j = start[r] + lane; j < start[r + 1]; j += 32) s += val[j] * x[col[j]];
  for (int d = 16; d; d >>= 1) if (lane < d) s += __shfl_down_sync(~0u, s, d);  // FAULT
  if (lane == 0) y[r] = s;
}
