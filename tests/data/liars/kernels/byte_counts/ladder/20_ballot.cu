// A block for each bin; lanes that agree are counted together.
// evo: task   byte_counts
// evo: launch kernel grid (256) block (32) shared 0

extern "C" __global__ void kernel(const unsigned char* data, int* bins, int n) {
    int count = 0;
    for (int first = 0; first < n; first += 32) {
        const int i = first + threadIdx.x;
        count += __popc(__ballot_sync(0xffffffffu, i < n && data[i] == blockIdx.x));
    }
    if (threadIdx.x == 0) bins[blockIdx.x] = count;
}
