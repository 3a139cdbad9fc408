// Counts are read before they are there.
// fault: race or uninitialised
// like: clean/compact_ballot.cu
extern "C" __global__ void k(const int* x, int* y, int* count, int n) {
  __shared__ int sums[8];
  __shared__ int base;
  int t = threadIdx.x, lane = t % 32;
  if (t == 0) base = 0;
  for (int i0 = 0; i0 < n; i0 += 256) {
    int v = i0 + t < n ? x[i0 + t] : 0;
    unsigned keep = __ballot_sync(~0u, v > 0);
    __syncthreads();
    if (lane == 0) sums[t / 32] = __popc(keep);  // FAULT
    int at = base, all = base;
    for (int w = 0; w < 8; w++) { if (w < t / 32) at += sums[w]; all += sums[w]; }  // FAULT
    if (v > 0) y[at + __popc(keep & ((1u << lane) - 1))] = v;
    __syncthreads();
    if (t == 0) base = all;
  }
  if (t == 0) *count = base;
}
