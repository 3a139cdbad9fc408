// evo: task block_walks
// evo: scratch counts int32 [2] init=zero
// evo: launch tally grid (min(ceil_div(N, 256), 4 * chip.sms)) block (256) shared 0
// evo: launch copy_out grid (1) block (32) shared 0
// what is above and what is below the limits, counted by blocks
extern "C" __global__ void tally(const float *x, int *found, int *counts, int n)
{
    __shared__ int above, below;
    if (threadIdx.x == 0) above = below = 0;
    __syncthreads();
    int own_above = 0;  // this thread's part of above
    int own_below = 0;  // this thread's part of below
    for (int block = blockIdx.x; block < (n + 256 - 1) / 256; block += gridDim.x) {
        const int i = block * blockDim.x + threadIdx.x;
        if (i < n) {
            if (x[i] > 0.5f) own_above += 1;
            if (x[i] < -0.5f) own_below += 1;
        }
    }
    for (int step = 16; step > 0; step /= 2) own_above += __shfl_xor_sync(0xffffffffu, own_above, step);
    if (threadIdx.x % 32 == 0) atomicAdd(&above, own_above);
    for (int step = 16; step > 0; step /= 2) own_below += __shfl_xor_sync(0xffffffffu, own_below, step);
    if (threadIdx.x % 32 == 0) atomicAdd(&below, own_below);
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(&counts[0], above);
        atomicAdd(&counts[1], below);
    }
}
extern "C" __global__ void copy_out(const float *x, int *found, int *counts, int n)
{
    if (threadIdx.x < 2) found[threadIdx.x] = counts[threadIdx.x];
}
