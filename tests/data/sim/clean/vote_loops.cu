// Loops that the whole warp leaves together, by a vote.
extern "C" __global__ void k(const int* a, int* o) {
  int i = threadIdx.x, v = abs(a[i]) % 23, c = 0, d = 0;
  bool on;
  do {
    on = v > 0;
    v -= 3;
    c++;
  } while (__any_sync(~0u, on));
  unsigned m;
  while ((m = __ballot_sync(~0u, d < (i & 3)))) {
    d += (m >> (i & 31)) & 1;
    c += 100;
  }
  o[i] = c + 10000 * d;
}
