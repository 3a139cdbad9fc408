// The lanes of a warp read a tile that the warp has stored.
#include <mma.h>
extern "C" __global__ void k(const int* x, int* t, int* y, int* f) {
  __shared__ __align__(32) __half a[256];
  __shared__ __align__(32) float c[256];
  using namespace nvcuda::wmma;
  int base = blockIdx.x * 256;
  a[threadIdx.x] = __int2half_rn(x[base + threadIdx.x] & 3);
  t[base + threadIdx.x] = 0;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  fragment<matrix_a, 16, 16, 16, __half, row_major> left;
  fragment<matrix_b, 16, 16, 16, __half, row_major> right;
  fragment<accumulator, 16, 16, 16, float> sum;
  load_matrix_sync(left, a, 16);
  load_matrix_sync(right, a, 16);
  fill_fragment(sum, 0.0f);
  mma_sync(sum, left, right, sum);
  store_matrix_sync(c, sum, 16, mem_row_major);
  __syncwarp();
  for (int j = threadIdx.x; j < 256; j += 32) y[base + j] = (int)c[j ^ 24];
}
