// A thread for each bin, which reads everything.
// evo: task   byte_counts
// evo: launch kernel grid (8) block (32) shared 0

extern "C" __global__ void kernel(const unsigned char* data, int* bins, int n) {
    const int bin = blockIdx.x * 32 + threadIdx.x;
    int count = 0;
    for (int i = 0; i < n; ++i) count += data[i] == bin;
    bins[bin] = count;
}
