// evo: task whole_sum
// evo: knob THREADS in 128, 256, 512, 1024
// evo: knob BLOCKS_PER_SM in 1, 2, 4, 8
// evo: scratch part float32 [ceil_div(N, 256)]
// evo: launch sum grid (min(ceil_div(N, 256), BLOCKS_PER_SM * chip.sms)) block (THREADS) shared 0 args (x, part, N)
// evo: launch last grid (1) block (1) shared 0 args (part, y, N)
#define THREADS 512
#define BLOCKS_PER_SM 2
extern "C" __global__ void sum(const float* x, float* part, int n) {
    // Each thread combines many elements, then each warp by shuffles, then the first warp what the others found.
    float sum = 0;
    const int count = n;
    const int first = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    const int packs = reinterpret_cast<unsigned long long>(x) % 16 == 0 ? count / 4 : 0;
    #pragma unroll 4
    for (int i = first; i < packs; i += all) {
        const float4 four_x = reinterpret_cast<const float4*>(x)[i];
        sum += (four_x.x + four_x.y) + (four_x.z + four_x.w);
    }
    for (int i = packs * 4 + first; i < count; i += all) {
        sum += x[i];
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    __shared__ float warps[32];
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    sum = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) part[blockIdx.x] = sum;
    if (threadIdx.x == 0)  // there are fewer blocks than places
        for (int i = blockIdx.x + gridDim.x; i < ((n + 256 - 1) / 256); i += gridDim.x) part[i] = 0;
}
extern "C" __global__ void last(const float* part, float* y, int n) {
    float total = 0.0f;
    for (int i = 0; i < (n + 255) / 256; ++i) total += part[i];
    y[0] = total;
}
