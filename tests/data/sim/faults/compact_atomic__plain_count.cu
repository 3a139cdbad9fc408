// Warps count without an atomic.
// fault: race
// like: clean/compact_atomic.cu
extern "C" __global__ void k(const int* x, int* y, int* count, int n) {
  int i = blockIdx.x * 128 + threadIdx.x, lane = threadIdx.x % 32;
  int v = i < n ? x[i] : 0;
  unsigned keep = __ballot_sync(~0u, v > 0);
  int at = 0;
  if (lane == 0) { at = *count; *count = at + __popc(keep); }  // FAULT
  at = __shfl_sync(~0u, at, 0);
  if (v > 0) y[at + __popc(keep & ((1u << lane) - 1))] = v;
}
