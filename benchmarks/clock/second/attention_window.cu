// Attention to a window of keys; a thread has a query of 32 floats in registers, keys and values pass through shared memory.
// sizes N=524288 W=128
// evo: task clock
// evo: knob THREADS in 32, 64, 128, 256
// evo: knob STEP in 8, 16, 32
// evo: knob ONLINE in 0, 1
// evo: launch window grid (N // 32 // THREADS) block (THREADS) shared 0
#define THREADS 32
#define STEP 8
#define ONLINE 0
extern "C" __global__ void window(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    __shared__ float4 keys[STEP][8], values[STEP][8];
    const int count = N / 32, query = blockIdx.x * THREADS + threadIdx.x;
    const int begin = max(0, (int)(blockIdx.x * THREADS) - W), end = min(count, begin + W + THREADS);
    float4 q[8], acc[8] = {};
    float m = ONLINE ? -1e30f : 8.0f, l = 0;
#pragma unroll
    for (int e = 0; e < 8; ++e) q[e] = ((const float4*)a)[query * 8 + e];
    for (int j0 = begin; j0 + STEP <= end; j0 += STEP) {
        __syncthreads();
        for (int i = threadIdx.x; i < STEP * 8; i += THREADS) {
            keys[i / 8][i % 8] = ((const float4*)b)[j0 * 8 + i];
            values[i / 8][i % 8] = ((const float4*)a)[j0 * 8 + i];
        }
        __syncthreads();
        for (int j = 0; j < STEP; ++j) {
            float s = 0;
#pragma unroll
            for (int e = 0; e < 8; ++e) s += q[e].x * keys[j][e].x + q[e].y * keys[j][e].y + q[e].z * keys[j][e].z + q[e].w * keys[j][e].w;
#if ONLINE
            if (s > m) {
                const float f = __expf(m - s);
                l *= f;
#pragma unroll
                for (int e = 0; e < 8; ++e) acc[e].x *= f, acc[e].y *= f, acc[e].z *= f, acc[e].w *= f;
                m = s;
            }
#endif
            const float p = __expf(s - m);
            l += p;
#pragma unroll
            for (int e = 0; e < 8; ++e) {
                const float4 v = values[j][e];
                acc[e].x += p * v.x, acc[e].y += p * v.y, acc[e].z += p * v.z, acc[e].w += p * v.w;
            }
        }
    }
    const float scale = 1.0f / l;
#pragma unroll
    for (int e = 0; e < 8; ++e) ((float4*)out)[query * 8 + e] = make_float4(acc[e].x * scale, acc[e].y * scale, acc[e].z * scale, acc[e].w * scale);
}
