// 16 x 16 tiles with wmma over a 32 x 32 product.
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(const __half* a, const __half* b, float* c, int n) {
  int w = threadIdx.x / 32, r = w / 2 * 16, q = w % 2 * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.f);
  for (int j = 0; j < n; j += 16) {
    wmma::load_matrix_sync(fa, a + r * n + j, n);
    wmma::load_matrix_sync(fb, b + j * n + q, n);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(c + r * n + q, fc, n, wmma::mem_row_major);
}
