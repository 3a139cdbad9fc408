// A Fourier transform of 64 points with two buffers in shared memory.
extern "C" __global__ void k(const float2* x, float2* y) {
  __shared__ float2 s[2][64];
  int i = threadIdx.x, now = 0;
  s[0][i] = x[__brev(i) >> 26];
  __syncthreads();
  for (int h = 1; h < 64; h *= 2) {
    int j = i & (h - 1), a = (i & ~(2 * h - 1)) + j;
    float sn, cs;
    sincospif(-(float)j / h, &sn, &cs);
    float2 u = s[now][a], v = s[now][a + h];
    float2 w = make_float2(v.x * cs - v.y * sn, v.x * sn + v.y * cs);
    s[1 - now][i] = i & h ? make_float2(u.x - w.x, u.y - w.y) : make_float2(u.x + w.x, u.y + w.y);
    now ^= 1;
    __syncthreads();
  }
  y[i] = s[now][i];
}
