// Quicksort of forty numbers per thread, by recursion.
__device__ void quick(int* a, int low, int high) {
  if (low >= high) return;
  int p = a[(low + high) / 2], i = low, j = high;
  while (i <= j) {
    while (a[i] < p) i++;
    while (a[j] > p) j--;
    if (i <= j) { int t = a[i]; a[i++] = a[j]; a[j--] = t; }
  }
  quick(a, low, j);
  quick(a, i, high);
}
extern "C" __global__ void k(int* y) { quick(y + threadIdx.x * 40, 0, 39); }
