// Lanes that are done do not vote any more.
// fault: warp_sync
// like: clean/vote_loops.cu
extern "C" __global__ void k(const int* a, int* o) {
  int i = threadIdx.x, v = abs(a[i]) % 23, c = 0, d = 0;
  bool on;
  do {
    on = v > 0;
    v -= 3;
    c++;
  } while (on && __any_sync(~0u, on));  // FAULT
  unsigned m;
  while ((m = __ballot_sync(~0u, d < (i & 3)))) {
    d += (m >> (i & 31)) & 1;
    c += 100;
  }
  o[i] = c + 10000 * d;
}
