// Elements that pass a test are packed: places come from one counter, asked by threads, warps or blocks.
// sizes N=2097152 W=1
// evo: task clock_zero
// evo: knob WAY in 0, 1, 2
// evo: knob THREADS in 64, 256, 1024
// evo: knob SHARE in 5, 50, 95
// evo: launch compact grid (N // THREADS) block (THREADS) shared 0
#define WAY 0
#define THREADS 64
#define SHARE 5
extern "C" __global__ void compact(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    int* counter = (int*)out;
    float* packed = out + 32;
    const float v = a[i];
    const bool pass = v < SHARE * 0.01f && i < N - 64;
#if WAY == 0
    if (pass) packed[atomicAdd(counter, 1)] = v;
#elif WAY == 1
    const unsigned those = __ballot_sync(~0u, pass);
    const int lane = threadIdx.x % 32;
    int first = 0;
    if (lane == 0 && those) first = atomicAdd(counter, __popc(those));
    first = __shfl_sync(~0u, first, 0);
    if (pass) packed[first + __popc(those & ((1u << lane) - 1))] = v;
#else
    __shared__ int of_block, first;
    if (threadIdx.x == 0) of_block = 0;
    __syncthreads();
    int place = 0;
    if (pass) place = atomicAdd(&of_block, 1);
    __syncthreads();
    if (threadIdx.x == 0) first = atomicAdd(counter, of_block);
    __syncthreads();
    if (pass) packed[first + place] = v;
#endif
}
