// evo: task whole_sum
// evo: scratch part float32 [ceil_div(N, 256)]
// evo: launch sum grid (ceil_div(N, 256)) block (256) shared 1024 args (x, part, N)
// evo: launch last grid (1) block (1) shared 0 args (part, y, N)
extern "C" __global__ void sum(const float* x, float* part, int n) {
    extern __shared__ float found[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    found[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (threadIdx.x < s) found[threadIdx.x] += found[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) part[blockIdx.x] = found[0];
}
extern "C" __global__ void last(const float* part, float* y, int n) {
    float total = 0.0f;
    for (int i = 0; i < (n + 255) / 256; ++i) total += part[i];
    y[0] = total;
}
