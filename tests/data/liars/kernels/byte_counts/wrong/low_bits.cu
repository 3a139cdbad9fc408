// expect: wrong, bins
// Counts the low three bits alone.
// evo: task   byte_counts
// evo: launch kernel grid (1) block (256) shared 0

extern "C" __global__ void kernel(const unsigned char* data, int* bins, int n) {
    __shared__ int counts[256];
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 256) atomicAdd(&counts[data[i] & 7], 1);
    __syncthreads();
    bins[threadIdx.x] = counts[threadIdx.x];
}
