// Layer norm of channels: groups of LANES threads have a row, moments in one pass, wide loads.
// sizes N=8388608 W=256
// evo: task clock
// evo: knob LANES in 4, 8, 16, 32
// evo: knob THREADS in 64, 128, 256, 512
// evo: knob AGAIN in 0, 1
// evo: launch normalize grid (N // W * LANES // THREADS) block (THREADS) shared 0
#define LANES 4
#define THREADS 64
#define AGAIN 0
extern "C" __global__ void normalize(const float* __restrict__ a, const float* __restrict__ b, const int* idx, float* __restrict__ out, int N, int W) {
    constexpr int PER = 256 / 4 / LANES;
    const int row = (blockIdx.x * THREADS + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    const float4* x = (const float4*)(a + row * 256);
    float4 v[AGAIN ? 1 : PER];
    float sum = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        const float4 u = x[k * LANES + lane];
        sum += u.x + u.y + u.z + u.w;
        squares += u.x * u.x + u.y * u.y + u.z * u.z + u.w * u.w;
        if (!AGAIN) v[k] = u;
    }
#pragma unroll
    for (int d = 1; d < LANES; d *= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, d);
        squares += __shfl_xor_sync(0xffffffffu, squares, d);
    }
    const float mean = sum / 256, inverse = rsqrtf(squares / 256 - mean * mean + 1e-5f);
#pragma unroll
    for (int k = 0; k < PER; ++k) {
        const float4 u = AGAIN ? x[k * LANES + lane] : v[k], g = ((const float4*)b)[k * LANES + lane];
        ((float4*)(out + row * 256))[k * LANES + lane] =
            make_float4((u.x - mean) * inverse * g.x, (u.y - mean) * inverse * g.y, (u.z - mean) * inverse * g.z, (u.w - mean) * inverse * g.w);
    }
}
