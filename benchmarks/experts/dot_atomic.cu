// evo: task dot_atomic
// evo: scratch acc float32 [1] init=zero
// evo: launch dot grid (4 * chip.sms) block (512) shared 0
// evo: launch finish grid (1) block (1) shared 0
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
extern "C" __global__ void dot(const float* a, const float* b, float* out, float* acc, int N) {
    float sum = 0;
    const int first = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    const int packs = min(packs_of(a, N), packs_of(b, N));
    #pragma unroll 4
    for (int i = first; i < packs; i += all) {
        const float4 v = reinterpret_cast<const float4*>(a)[i], w = reinterpret_cast<const float4*>(b)[i];
        sum += (v.x * w.x + v.y * w.y) + (v.z * w.z + v.w * w.w);
    }
    for (int i = packs * 4 + first; i < N; i += all) sum += a[i] * b[i];
    __shared__ float parts[32];
    sum = over_block<false>(sum, parts);
    if (threadIdx.x == 0) atomicAdd(acc, sum);
}
extern "C" __global__ void finish(const float* a, const float* b, float* out, float* acc, int N) { out[0] = acc[0]; }
