// all pairs: float4 bodies staged in shared memory, barrier before and after
// evo: task forces
// evo: launch body grid (ceil_div(N, 128)) block (128) shared 0
__device__ __forceinline__ float one(float4 a, float4 b) {
    float3 d = make_float3(a.x - b.x, a.y - b.y, a.z - b.z);
    float dist = d.x * d.x + d.y * d.y + d.z * d.z + 0.01f;
    return b.w * rsqrtf(dist);
}
extern "C" __global__ void body(const float4* pos, float* out, int n) {
    __shared__ float4 sh[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    float4 me = i < n ? pos[i] : make_float4(0, 0, 0, 0);
    float acc = 0;
    for (int base = 0; base < n; base += 128) {
        int j = base + threadIdx.x;
        sh[threadIdx.x] = j < n ? pos[j] : make_float4(0, 0, 0, 0);
        __syncthreads();
        for (int k = 0; k < 128; k++) acc += one(me, sh[k]);
        __syncthreads();
    }
    if (i < n) out[i] = acc;
}
