// A float4 load one float off.
// fault: misaligned
// like: clean/matmul_vector.cu
extern "C" __global__ void k(const float4* a, const float4* b, float4* c, int n) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = 4 * (blockIdx.y * blockDim.y + threadIdx.y), q = n / 4;
  float4 s[4] = {};
  for (int k0 = 0; k0 < q; k0++) {
    float4 v[4];
    for (int j = 0; j < 4; j++) v[j] = b[(4 * k0 + j) * q + col];
    for (int r = 0; r < 4; r++) {
      float4 u = *(const float4*)((const float*)a + (row + r) * n + 4 * k0 + (r & 1));  // FAULT
      float w[4] = {u.x, u.y, u.z, u.w};
      for (int j = 0; j < 4; j++) {
        s[r].x += w[j] * v[j].x; s[r].y += w[j] * v[j].y; s[r].z += w[j] * v[j].z; s[r].w += w[j] * v[j].w;
      }
    }
  }
  for (int r = 0; r < 4; r++) c[(row + r) * q + col] = s[r];
}
