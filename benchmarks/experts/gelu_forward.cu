// evo: task gelu_forward
// evo: launch gelu grid (ceil_div(N, 1024)) block (256) shared 0
// How many groups of four a row has, if rows are aligned.
__device__ __forceinline__ int packs_of(const void* row, int n) {
    return reinterpret_cast<unsigned long long>(row) % 16 == 0 ? n / 4 : 0;
}
__device__ __forceinline__ float gelu(float x) {
    const float u = 0.7978845608f * (x + 0.044715f * x * x * x);
    return x / (1.0f + __expf(-2.0f * u));
}
extern "C" __global__ void gelu(const float* __restrict__ x, float* __restrict__ y, int N) {
    const int i = (blockIdx.x * 256 + threadIdx.x) * 4;
    if (i + 3 < N && packs_of(x, 4) && packs_of(y, 4)) {
        const float4 v = *reinterpret_cast<const float4*>(x + i);
        *reinterpret_cast<float4*>(y + i) = make_float4(gelu(v.x), gelu(v.y), gelu(v.z), gelu(v.w));
    } else {
        for (int e = i; e < min(i + 4, N); ++e) y[e] = gelu(x[e]);
    }
}
