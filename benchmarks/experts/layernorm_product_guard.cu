// evo: task layernorm_product_guard
// evo: launch layernorm grid (B * T) block (128) shared 0
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
extern "C" __global__ void layernorm(const float* __restrict__ in, const float* __restrict__ weight, const float* __restrict__ bias,
    float* __restrict__ out, float* mean, float* rstd, int B, int T, int C) {
    const float* x = in + (long)blockIdx.x * C;
    float* y = out + (long)blockIdx.x * C;
    const int packs = packs_of(x, C);
    float sum = 0;
    for (int i = threadIdx.x; i < packs; i += blockDim.x) {
        const float4 v = reinterpret_cast<const float4*>(x)[i];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    for (int i = packs * 4 + threadIdx.x; i < C; i += blockDim.x) sum += x[i];
    __shared__ float parts[32];
    const float m = over_block<false>(sum, parts) / C;
    sum = 0;
    for (int i = threadIdx.x; i < packs; i += blockDim.x) {
        const float4 v = reinterpret_cast<const float4*>(x)[i];
        const float a = v.x - m, b = v.y - m, c = v.z - m, d = v.w - m;
        sum += (a * a + b * b) + (c * c + d * d);
    }
    for (int i = packs * 4 + threadIdx.x; i < C; i += blockDim.x) sum += (x[i] - m) * (x[i] - m);
    const float s = 1.0f / sqrtf(over_block<false>(sum, parts) / C + 1e-5f);
    const int all = min(min(packs, packs_of(y, C)), min(packs_of(weight, C), packs_of(bias, C)));
    for (int i = threadIdx.x; i < all; i += blockDim.x) {
        const float4 v = reinterpret_cast<const float4*>(x)[i];
        const float4 w = reinterpret_cast<const float4*>(weight)[i], b = reinterpret_cast<const float4*>(bias)[i];
        reinterpret_cast<float4*>(y)[i] = make_float4(
            s * (v.x - m) * w.x + b.x, s * (v.y - m) * w.y + b.y, s * (v.z - m) * w.z + b.z, s * (v.w - m) * w.w + b.w);
    }
    for (int i = all * 4 + threadIdx.x; i < C; i += blockDim.x) y[i] = s * (x[i] - m) * weight[i] + bias[i];
    if (threadIdx.x == 0) mean[blockIdx.x] = m, rstd[blockIdx.x] = s;
}
