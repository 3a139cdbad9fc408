#include <cstdio>
typedef unsigned char u8;
__device__ __forceinline__ int wrap(int a, int n) { return (a + n) % n; }
__global__ void life_step(const u8 *cur, u8 *next, int W, int H) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < W * H; i += gridDim.x * blockDim.x) {
    int x = i % W, y = i / W, c = 0;
    for (int dy = -1; dy <= 1; dy++) for (int dx = -1; dx <= 1; dx++)
      if (dx || dy) c += cur[wrap(y + dy, H) * W + wrap(x + dx, W)];
    next[i] = (c == 3 || (c == 2 && cur[i])) ? 1 : 0;
  }
}
int main() {
  int W = 1024, H = 512; u8 *a, *b;
  cudaMallocManaged(&a, W * H); cudaMallocManaged(&b, W * H);
  for (int i = 0; i < W * H; i++) a[i] = (i * 2654435761u >> 13) & 1;
  for (int t = 0; t < 10; t++) { life_step<<<256, 256>>>(a, b, W, H); cudaDeviceSynchronize(); u8 *s = a; a = b; b = s; }
  printf("%d\n", a[77]);
}
