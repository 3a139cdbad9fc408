// evo: launch k grid (1) block (32) shared 0
struct alignas(16) Float4 {
    float at[4];
};
extern "C" __global__ void k(const float* a, float* o, float x, int n) {
  const bool i_wide = reinterpret_cast<unsigned long long>(a) % 16 == 0 && reinterpret_cast<unsigned long long>(o) % 16 == 0;
  int i_done = 0;
  for (; i_wide && i_done + 3 < n; i_done += 4) {
      const Float4 a_pack = *reinterpret_cast<const Float4*>(&a[i_done]);
      Float4 o_pack;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
          o_pack.at[e] = a_pack.at[e] * x;
      }
      *reinterpret_cast<Float4*>(&o[i_done]) = o_pack;
  }
#pragma unroll 1
  for (int i = i_done; i < n; ++i) o[i] = a[i] * x;
}
