// The interval stops shrinking.
// fault: budget
// like: clean/binary_search.cu
// budget: 200000
extern "C" __global__ void k(const int* list, const int* query, int* y, int n, int m) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= m) return;
  int lo = 0, hi = n;
  while (lo < hi) {  // FAULT
    int mid = (lo + hi) / 2; if (list[mid] < query[i]) lo = mid; else hi = mid; }  // FAULT
  y[i] = lo;
}
