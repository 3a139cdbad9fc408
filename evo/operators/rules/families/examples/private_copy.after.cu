// evo: task private_copy
// evo: scratch counts int32 [256] init=zero
// evo: launch count grid (5 * chip.sms) block (192) shared 0
// evo: launch copy_out grid (1) block (256) shared 0
// counts with global atomics, grid-stride loop over bytes
extern "C" __global__ void count(const unsigned char *data, int *bins, int *counts, int n)
{
    __shared__ int own[256];  // the block's part of counts
    for (int e = threadIdx.x; e < 256; e += blockDim.x) own[e] = 0;
    __syncthreads();
	int tid = threadIdx.x + blockIdx.x * blockDim.x;
	const int stride = blockDim.x * gridDim.x;
	while (tid < n) {
		atomicAdd(&own[data[tid]], 1);
		tid += stride;
	}
    __syncthreads();
    for (int e = threadIdx.x; e < 256; e += blockDim.x) {
        if (own[e] != 0) atomicAdd(&counts[e], own[e]);
    }
}
extern "C" __global__ void copy_out(const unsigned char *data, int *bins, int *counts, int n)
{
	bins[threadIdx.x] = counts[threadIdx.x];
}
