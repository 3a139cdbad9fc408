// evo: task quantise_rows
// evo: launch quantise grid (ROWS) block (256) shared 0
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
extern "C" __global__ void quantise(const float* __restrict__ in, signed char* __restrict__ out, float* scale, int ROWS, int C) {
    const float* x = in + (long)blockIdx.x * C;
    signed char* q = out + (long)blockIdx.x * C;
    const int packs = packs_of(x, C);
    float top = 0;
    for (int i = threadIdx.x; i < packs; i += 256) {
        const float4 v = reinterpret_cast<const float4*>(x)[i];
        top = fmaxf(top, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
    }
    for (int i = packs * 4 + threadIdx.x; i < C; i += 256) top = fmaxf(top, fabsf(x[i]));
    __shared__ float parts[32];
    top = over_block<true>(top, parts);
    const float inv = 127.0f / top;
    const int both = reinterpret_cast<unsigned long long>(q) % 4 == 0 ? packs : 0;
    for (int i = threadIdx.x; i < both; i += 256) {
        const float4 v = reinterpret_cast<const float4*>(x)[i];
        reinterpret_cast<char4*>(q)[i] = make_char4((signed char)rintf(v.x * inv), (signed char)rintf(v.y * inv),
                                                    (signed char)rintf(v.z * inv), (signed char)rintf(v.w * inv));
    }
    for (int i = both * 4 + threadIdx.x; i < C; i += 256) q[i] = (signed char)fminf(fmaxf(rintf(x[i] * inv), -127.0f), 127.0f);
    if (threadIdx.x == 0) scale[blockIdx.x] = top / 127.0f;
}
