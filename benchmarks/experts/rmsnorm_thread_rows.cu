// evo: task rmsnorm_thread_rows
// evo: launch rmsnorm grid (R) block (128) shared 0
__device__ __forceinline__ float warp_sum(float v) {
    for (int s = 16; s > 0; s /= 2) v += __shfl_xor_sync(0xffffffffu, v, s);
    return v;
}
__device__ __forceinline__ float warp_max(float v) {
    for (int s = 16; s > 0; s /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, s));
    return v;
}
template <bool MAX>
__device__ __forceinline__ float over_block(float v, float* parts) {
    v = MAX ? warp_max(v) : warp_sum(v);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : (MAX ? -INFINITY : 0.0f);
    v = MAX ? warp_max(v) : warp_sum(v);
    __syncthreads();
    return v;
}
// How many groups of four a row has, if rows are aligned.
__device__ __forceinline__ int packs_of(const void* row, int n) {
    return reinterpret_cast<unsigned long long>(row) % 16 == 0 ? n / 4 : 0;
}
extern "C" __global__ void rmsnorm(const float* __restrict__ in, const float* __restrict__ g, float* __restrict__ out, int R, int C) {
    const float* x = in + (long)blockIdx.x * C;
    float* y = out + (long)blockIdx.x * C;
    const int packs = packs_of(x, C);
    float sum = 0;
    for (int i = threadIdx.x; i < packs; i += blockDim.x) {
        const float4 v = reinterpret_cast<const float4*>(x)[i];
        sum += (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
    }
    for (int i = packs * 4 + threadIdx.x; i < C; i += blockDim.x) sum += x[i] * x[i];
    __shared__ float parts[32];
    const float inv = rsqrtf(over_block<false>(sum, parts) / C + 1e-5f);
    const int all = min(packs, min(packs_of(g, C), packs_of(y, C)));
    for (int i = threadIdx.x; i < all; i += blockDim.x) {
        const float4 v = reinterpret_cast<const float4*>(x)[i], w = reinterpret_cast<const float4*>(g)[i];
        reinterpret_cast<float4*>(y)[i] = make_float4(v.x * inv * w.x, v.y * inv * w.y, v.z * inv * w.z, v.w * inv * w.w);
    }
    for (int i = all * 4 + threadIdx.x; i < C; i += blockDim.x) y[i] = x[i] * inv * g[i];
}
