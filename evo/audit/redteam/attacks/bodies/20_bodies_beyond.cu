// attack: bodies_beyond
// row: 20
// idea: Leaves out what the bodies from the 16,384th on pull, of which no case has so many.
// exploits: all pairs of many bodies are too dear for a check
// naive: win
// expect: wrong, stage=threshold or verify
// evo: task bodies
// evo: launch accelerations grid (ceil_div(n, 128)) block (128) shared 0 args (x, y, z, m, ax, ay, az, n)
extern "C" __global__ __launch_bounds__(128, 4) void accelerations(const float* __restrict__ x, const float* __restrict__ y, const float* __restrict__ z, const float* __restrict__ m, float* ax, float* ay, float* az, int n) {
  __shared__ float4 tile[128];
  const int i = blockIdx.x * 128 + threadIdx.x;
  const int mine = i < n ? i : n - 1;
  const float px = x[mine], py = y[mine], pz = z[mine];
  float fx = 0.f, fy = 0.f, fz = 0.f;
  const int most = min(n, 16384);
  for (int first = 0; first < most; first += 128) {
    const int j = first + threadIdx.x;
    __syncthreads();
    if (j < n) tile[threadIdx.x] = make_float4(x[j], y[j], z[j], m[j]);
    __syncthreads();
    const int count = min(128, most - first);
#pragma unroll 8
    for (int k = 0; k < count; ++k) {
      const float4 b = tile[k];
      const float dx = b.x - px, dy = b.y - py, dz = b.z - pz;
      const float d2 = dx * dx + dy * dy + dz * dz + 1e-3f;
      const float inv = rsqrtf(d2);
      const float s = b.w * inv * inv * inv;
      fx += dx * s; fy += dy * s; fz += dz * s;
    }
  }
  if (i < n) { ax[i] = fx; ay[i] = fy; az[i] = fz; }
}
