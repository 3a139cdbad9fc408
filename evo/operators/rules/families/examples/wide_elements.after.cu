// evo: launch k grid (ceil_div(N, 64 * 4)) block (64) shared 0
struct alignas(16) Float4 {
    float at[4];
};
extern "C" __global__ void k(const float* a, float* o, int n) {
  const bool i_wide = reinterpret_cast<unsigned long long>(a) % 16 == 0 && reinterpret_cast<unsigned long long>(o) % 16 == 0;
  for (int i_done = (blockIdx.x * 64 + threadIdx.x) * 4; i_wide && i_done + 3 < n; i_done += ((int)gridDim.x * (64)) * 4) {
      const Float4 a_pack = *reinterpret_cast<const Float4*>(&a[i_done]);
      Float4 o_pack;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
          o_pack.at[e] = a_pack.at[e] * 2.0f;
      }
      *reinterpret_cast<Float4*>(&o[i_done]) = o_pack;
  }
  for (int i = (i_wide ? n / 4 * 4 : 0) + blockIdx.x * 64 + threadIdx.x; i < n; i += (int)gridDim.x * (64)) {
  o[i] = a[i] * 2.0f;
  }
}
