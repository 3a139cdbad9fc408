// The mask leaves out lanes that run.
// fault: warp_sync
// like: clean/histogram_match.cu
extern "C" __global__ void k(const unsigned char* x, unsigned* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned there = __ballot_sync(~0u, i < n);
  if (i >= n) return;
  unsigned same = __match_any_sync(0xffu, (int)x[i]);  // FAULT
  if (__ffs(same) - 1 == (threadIdx.x & 31)) atomicAdd(&y[x[i]], __popc(same));
}
