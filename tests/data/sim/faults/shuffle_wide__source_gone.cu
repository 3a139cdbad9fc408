// Two lanes leave before the others read from them.
// fault: warp_sync
// like: clean/shuffle_wide.cu
#include <cuda_fp16.h>
extern "C" __global__ void k(const long long* a, const double* d, long long* o, double* e, __half2* h) {
  int i = threadIdx.x;
  if (i >= 30) return;
  o[i] = __shfl_xor_sync(~0u, a[i], 5) + __shfl_up_sync(~0u, a[i], 1, 8);  // FAULT
  e[i] = __shfl_down_sync(~0u, d[i], 3) + __shfl_sync(~0u, d[i], i ^ 1);
  __half2 v = __floats2half2_rn(i, -i);
  h[i] = __hadd2(__shfl_xor_sync(~0u, v, 16), __shfl_sync(~0u, v, 7));
}
