// One query against a cache of 512 keys of 64 floats: warps share the keys of a head, and join by their maxima.
// sizes N=4194304 W=512
// evo: task clock
// evo: knob WARPS in 1, 2, 4, 8, 16
// evo: knob KEYS in 1, 2, 4
// evo: knob LANES in 16, 32
// evo: launch decode grid (128) block (WARPS * 32) shared 0
#define WARPS 1
#define KEYS 1
#define LANES 16
#define D 64
extern "C" __global__ void decode(const float* __restrict__ a, const float* __restrict__ b, const int* idx, float* __restrict__ out, int N, int W) {
    constexpr int PER = D / LANES, GROUPS = WARPS * 32 / LANES;
    __shared__ float acc_of[GROUPS][D], max_of[GROUPS], sum_of[GROUPS];
    const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const float *keys = a + blockIdx.x * 512 * D, *values = b + blockIdx.x * 512 * D;
    float q[PER], acc[PER] = {}, m = -1e30f, l = 0;
#pragma unroll
    for (int e = 0; e < PER; ++e) q[e] = a[blockIdx.x * D + lane * PER + e] * 0.125f;
    for (int j = group * KEYS; j < 512; j += GROUPS * KEYS) {
        float s[KEYS] = {};
#pragma unroll
        for (int k = 0; k < KEYS; ++k)
#pragma unroll
            for (int e = 0; e < PER; ++e) s[k] += q[e] * keys[(j + k) * D + lane * PER + e];
#pragma unroll
        for (int k = 0; k < KEYS; ++k)
#pragma unroll
            for (int d = LANES / 2; d; d /= 2) s[k] += __shfl_xor_sync(0xffffffffu, s[k], d);
        float top = m;
#pragma unroll
        for (int k = 0; k < KEYS; ++k) top = fmaxf(top, s[k]);
        const float shrink = __expf(m - top);
        l *= shrink;
#pragma unroll
        for (int e = 0; e < PER; ++e) acc[e] *= shrink;
#pragma unroll
        for (int k = 0; k < KEYS; ++k) {
            const float p = __expf(s[k] - top);
            l += p;
#pragma unroll
            for (int e = 0; e < PER; ++e) acc[e] += p * values[(j + k) * D + lane * PER + e];
        }
        m = top;
    }
#pragma unroll
    for (int e = 0; e < PER; ++e) acc_of[group][lane * PER + e] = acc[e];
    if (lane == 0) max_of[group] = m, sum_of[group] = l;
    __syncthreads();
    for (int d = threadIdx.x; d < D; d += WARPS * 32) {
        float top = -1e30f, whole = 0, r = 0;
        for (int g = 0; g < GROUPS; ++g) top = fmaxf(top, max_of[g]);
        for (int g = 0; g < GROUPS; ++g) {
            const float f = __expf(max_of[g] - top);
            whole += f * sum_of[g];
            r += f * acc_of[g][d];
        }
        out[blockIdx.x * D + d] = r / whole;
    }
}
