// evo: task histogram256
// evo: scratch counts int32 [256] init=zero
// evo: launch count grid (8 * chip.sms) block (256) shared 0
// evo: launch copy_out grid (1) block (256) shared 0
extern "C" __global__ void count(const unsigned char* data, int* bins, int* counts, int n) {
    __shared__ int own[4][257];  // a copy for two warps each
    for (int e = threadIdx.x; e < 4 * 257; e += 256) own[e / 257][e % 257] = 0;
    __syncthreads();
    int* mine = own[threadIdx.x / 32 % 4];
    const int first = blockIdx.x * 256 + threadIdx.x, all = gridDim.x * 256;
    const int packs = reinterpret_cast<unsigned long long>(data) % 16 == 0 ? n / 16 : 0;
    for (int i = first; i < packs; i += all) {
        const uint4 v = reinterpret_cast<const uint4*>(data)[i];
        const unsigned words[4] = {v.x, v.y, v.z, v.w};
        #pragma unroll
        for (int w = 0; w < 4; ++w)
            #pragma unroll
            for (int b = 0; b < 4; ++b) atomicAdd(&mine[words[w] >> (8 * b) & 255], 1);
    }
    for (int i = packs * 16 + first; i < n; i += all) atomicAdd(&mine[data[i]], 1);
    __syncthreads();
    const int sum = own[0][threadIdx.x] + own[1][threadIdx.x] + own[2][threadIdx.x] + own[3][threadIdx.x];
    if (sum) atomicAdd(&counts[threadIdx.x], sum);
}
extern "C" __global__ void copy_out(const unsigned char* data, int* bins, int* counts, int n) { bins[threadIdx.x] = counts[threadIdx.x]; }
