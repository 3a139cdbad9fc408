// evo: task softmax_rows
// evo: launch softmax grid (N) block (256) shared 0
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
extern "C" __global__ void softmax(const float* __restrict__ in, float* __restrict__ out, int N, int C) {
    const float* x = in + (long)blockIdx.x * C;
    float* y = out + (long)blockIdx.x * C;
    float m = -INFINITY, s = 0;
    const int packs = packs_of(x, C);
    for (int i = threadIdx.x; i < packs; i += blockDim.x) {
        const float4 v = reinterpret_cast<const float4*>(x)[i];
        const float top = fmaxf(m, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
        s = s * __expf(m - top) + ((__expf(v.x - top) + __expf(v.y - top)) + (__expf(v.z - top) + __expf(v.w - top)));
        m = top;
    }
    for (int i = packs * 4 + threadIdx.x; i < C; i += blockDim.x) {
        const float top = fmaxf(m, x[i]);
        s = s * __expf(m - top) + __expf(x[i] - top);
        m = top;
    }
    __shared__ float parts[32];
    const float top = over_block<true>(m, parts);
    s = over_block<false>(m == -INFINITY ? 0.0f : s * __expf(m - top), parts);
    const float scale = 1.0f / s;
    const int both = min(packs, packs_of(y, C));
    for (int i = threadIdx.x; i < both; i += blockDim.x) {
        const float4 v = reinterpret_cast<const float4*>(x)[i];
        reinterpret_cast<float4*>(y)[i] = make_float4(
            __expf(v.x - top) * scale, __expf(v.y - top) * scale, __expf(v.z - top) * scale, __expf(v.w - top) * scale);
    }
    for (int i = both * 4 + threadIdx.x; i < C; i += blockDim.x) y[i] = __expf(x[i] - top) * scale;
}
