// evo: task adamw_step
// evo: launch adamw grid (ceil_div(N, 1024)) block (256) shared 0
// How many groups of four a row has, if rows are aligned.
__device__ __forceinline__ int packs_of(const void* row, int n) {
    return reinterpret_cast<unsigned long long>(row) % 16 == 0 ? n / 4 : 0;
}
__device__ __forceinline__ void step(float p, float g, float m, float v, float& po, float& mo, float& vo) {
    mo = 0.9f * m + 0.1f * g;
    vo = 0.999f * v + 0.001f * g * g;
    po = p - 1e-3f * (mo * 10.0f / (sqrtf(vo * 1000.0f) + 1e-8f) + 0.01f * p);
}
extern "C" __global__ void adamw(const float* __restrict__ p, const float* __restrict__ g, const float* __restrict__ m,
    const float* __restrict__ v, float* __restrict__ po, float* __restrict__ mo, float* __restrict__ vo, int N) {
    const int i = (blockIdx.x * 256 + threadIdx.x) * 4;
    const bool wide = packs_of(p, 4) && packs_of(g, 4) && packs_of(m, 4) && packs_of(v, 4) && packs_of(po, 4)
        && packs_of(mo, 4) && packs_of(vo, 4);
    if (i + 3 < N && wide) {
        const float4 a = *(const float4*)(p + i), b = *(const float4*)(g + i), c = *(const float4*)(m + i), d = *(const float4*)(v + i);
        float4 x, y, z;
        step(a.x, b.x, c.x, d.x, x.x, y.x, z.x);
        step(a.y, b.y, c.y, d.y, x.y, y.y, z.y);
        step(a.z, b.z, c.z, d.z, x.z, y.z, z.z);
        step(a.w, b.w, c.w, d.w, x.w, y.w, z.w);
        *(float4*)(po + i) = x;
        *(float4*)(mo + i) = y;
        *(float4*)(vo + i) = z;
    } else {
        for (int e = i; e < min(i + 4, N); ++e) step(p[e], g[e], m[e], v[e], po[e], mo[e], vo[e]);
    }
}
