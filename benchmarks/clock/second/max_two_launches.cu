// The maximum in two launches: of blocks into a workspace, then of the workspace.
// sizes N=8388608 W=1
// evo: task clock
// evo: knob THREADS in 64, 128, 256, 512
// evo: knob ITEMS in 1, 2, 4, 8, 16
// evo: knob TREE in 0, 1
// evo: scratch partial float32 [ceil_div(N, THREADS * ITEMS)] init=poison
// evo: launch of_blocks grid (ceil_div(N, THREADS * ITEMS)) block (THREADS) shared 0
// evo: launch of_all grid (1) block (256) shared 0
#define THREADS 64
#define ITEMS 1
#define TREE 0
template <int COUNT>
__device__ float block_max(float v, float* room) {
    const int t = threadIdx.x;
#if TREE
    room[t] = v;
    __syncthreads();
#pragma unroll
    for (int half = COUNT / 2; half >= 1; half /= 2) {
        if (t < half) room[t] = fmaxf(room[t], room[t + half]);
        __syncthreads();
    }
    return room[0];
#else
    unsigned bits = __float_as_uint(v);
    bits = __reduce_max_sync(0xffffffffu, bits);
    if (t % 32 == 0) room[t / 32] = __uint_as_float(bits);
    __syncthreads();
    float best = room[0];
    for (int k = 1; k < COUNT / 32; k++) best = fmaxf(best, room[k]);
    return best;
#endif
}

extern "C" __global__ void of_blocks(const float* a, const float* b, const int* idx, float* out, float* partial, int N, int W) {
    __shared__ float room[THREADS];
    float best = 0.f;
    const float* mine = a + (size_t)blockIdx.x * THREADS * ITEMS + threadIdx.x;
#pragma unroll
    for (int item = 0; item < ITEMS; item++) best = fmaxf(best, mine[item * THREADS]);
    best = block_max<THREADS>(best, room);
    if (threadIdx.x == 0) partial[blockIdx.x] = best;
}

extern "C" __global__ void of_all(const float* a, const float* b, const int* idx, float* out, float* partial, int N, int W) {
    __shared__ float room[256];
    const int count = (N + THREADS * ITEMS - 1) / (THREADS * ITEMS);
    float best = 0.f;
    for (int i = threadIdx.x; i < count; i += 256) best = fmaxf(best, partial[i]);
    best = block_max<256>(best, room);
    if (threadIdx.x == 0) out[0] = best;
}
