// Rows to bytes by their largest magnitude; the row is kept in registers or read again.
// sizes N=8388608 W=1024
// evo: task clock
// evo: knob THREADS in 32, 64, 128, 256
// evo: knob KEEP in 0, 1
// evo: knob ROUND in 0, 1
// evo: launch quantize grid (N // W) block (THREADS) shared 0
#define THREADS 32
#define KEEP 0
#define ROUND 0
extern "C" __global__ void quantize(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    constexpr int PER = 1024 / 4 / THREADS;
    const float4* row = (const float4*)(a + blockIdx.x * 1024);
    __shared__ float most[THREADS / 32];
    float4 kept[PER];
    float m = 0;
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        const float4 v = row[k * THREADS + threadIdx.x];
        if (KEEP) kept[k] = v;
        m = fmaxf(m, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
    }
    for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
    if (threadIdx.x % 32 == 0) most[threadIdx.x / 32] = m;
    __syncthreads();
    for (int k = 0; k < THREADS / 32; ++k) m = fmaxf(m, most[k]);
    const float scale = 127.0f / m;
    char4* to = (char4*)out + blockIdx.x * 256;
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        const float4 v = KEEP ? kept[k] : row[k * THREADS + threadIdx.x];
#if ROUND
        to[k * THREADS + threadIdx.x] = make_char4(__float2int_rn(v.x * scale), __float2int_rn(v.y * scale), __float2int_rn(v.z * scale), __float2int_rn(v.w * scale));
#else
        to[k * THREADS + threadIdx.x] = make_char4((signed char)(v.x * scale), (signed char)(v.y * scale), (signed char)(v.z * scale), (signed char)(v.w * scale));
#endif
    }
}
