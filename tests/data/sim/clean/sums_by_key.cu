// Lanes with equal keys add up among themselves: one redux whose masks differ from lane to lane.
extern "C" __global__ void k(const int* x, int* y) {
  int t = blockIdx.x * blockDim.x + threadIdx.x, v = x[t];
  unsigned same = __match_any_sync(~0u, v & 3);
  y[t] = __reduce_add_sync(same, v) + (__any_sync(same, v > 90) ? 10000 : 0);
}
