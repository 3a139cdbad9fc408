// The lanes read what others store without meeting them.
// fault: race
// like: clean/syncwarp_halves.cu
extern "C" __global__ void k(const int* a, int* o) {
  __shared__ int s[64];
  int i = threadIdx.x, w = i & 32;
  s[i] = a[i];
  if ((i & 31) < 16) {
    int v = s[i ^ 1];  // FAULT
    __syncwarp(0xffff);
    s[i] = v;
    __syncwarp(0xffff);
    o[i] = s[w + ((i + 3) & 15)];
  } else {
    int v = s[w + 31 - (i & 15)];  // FAULT
    __syncwarp(0xffff0000u);
    s[i] = v * 2;
    __syncwarp(0xffff0000u);
    o[i] = s[w + 16 + ((i + 5) & 15)];
  }
}
