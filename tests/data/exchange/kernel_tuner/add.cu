#ifndef block_size_x
#define block_size_x 128
#endif

__global__ void add(const float* a, const float* b, float* c, int n) {
    for (int j = 0; j < per_thread; ++j) {
        const int i = (blockIdx.x * per_thread + j) * block_size_x + threadIdx.x;
        if (i < n) c[i] = a[i] + b[i];
    }
}
