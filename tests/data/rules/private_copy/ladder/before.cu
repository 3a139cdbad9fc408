// evo: task private_copy
// evo: scratch counts int32 [256] init=zero
// evo: launch count grid (240) block (192) shared 0
// evo: launch copy_out grid (1) block (256) shared 0
// counts with global atomics, grid-stride loop over bytes
extern "C" __global__ void count(const unsigned char *data, int *bins, int *counts, int n)
{
	int tid = threadIdx.x + blockIdx.x * blockDim.x;
	const int stride = blockDim.x * gridDim.x;
	while (tid < n) {
		atomicAdd(&counts[data[tid]], 1);
		tid += stride;
	}
}
extern "C" __global__ void copy_out(const unsigned char *data, int *bins, int *counts, int n)
{
	bins[threadIdx.x] = counts[threadIdx.x];
}
