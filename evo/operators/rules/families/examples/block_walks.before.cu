// evo: task block_walks
// evo: scratch counts int32 [2] init=zero
// evo: launch tally grid (ceil_div(N, 256)) block (256) shared 0
// evo: launch copy_out grid (1) block (32) shared 0
// what is above and what is below the limits, counted by blocks
extern "C" __global__ void tally(const float *x, int *found, int *counts, int n)
{
    __shared__ int above, below;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) above = below = 0;
    __syncthreads();
    if (i < n) {
        if (x[i] > 0.5f) atomicAdd(&above, 1);
        if (x[i] < -0.5f) atomicAdd(&below, 1);
    }
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
