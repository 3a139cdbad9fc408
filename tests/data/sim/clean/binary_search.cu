// Where each query belongs in a sorted list; lanes part for a while.
extern "C" __global__ void k(const int* list, const int* query, int* y, int n, int m) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= m) return;
  int lo = 0, hi = n;
  while (lo < hi) { int mid = (lo + hi) / 2; if (list[mid] < query[i]) lo = mid + 1; else hi = mid; }
  y[i] = lo;
}
