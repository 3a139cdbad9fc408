// Lanes of one load and of one store in three buffers, in shared and in local memory.
extern "C" __global__ void k(float* x, float* y, float* z, float* o, float* q) {
  __shared__ float s[128];
  int i = threadIdx.x;
  float l[4] = {1.f + i, 2.f + i, 3.f, 4.f};
  s[i] = i / 2;
  __syncthreads();
  float* p = i % 5 == 0 ? x + i : i % 5 == 1 ? y + i : i % 5 == 2 ? s + i : i % 5 == 3 ? l + (i & 3) : z + i;
  float v = *p;
  *p = v + 1;
  __syncthreads();
  o[i] = v;
  q[i] = *p + s[i] + l[i & 3];
}
