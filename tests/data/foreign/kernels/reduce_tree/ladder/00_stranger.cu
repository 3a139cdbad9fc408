// evo: task reduce_tree
// evo: scratch part float32 [ceil_div(N, 256)]
// evo: launch reduce0 grid (ceil_div(N, 256)) block (256) shared 1024
// evo: launch last grid (1) block (256) shared 0
extern "C" __global__ void reduce0(const float *x, float *y, float *part, int n) {
    extern __shared__ float sdata[];
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    sdata[tid] = (i < n) ? x[i] : 0;
    __syncthreads();
    for (unsigned int s = 1; s < blockDim.x; s *= 2) {
        if ((tid % (2 * s)) == 0) sdata[tid] += sdata[tid + s];
        __syncthreads();
    }
    if (tid == 0) part[blockIdx.x] = sdata[0];
}
extern "C" __global__ void last(const float *x, float *y, float *part, int n) {
    __shared__ float sh[256];
    float acc = 0;
    for (int i = threadIdx.x; i < (n + 255) / 256; i += 256) acc += part[i];
    sh[threadIdx.x] = acc;
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1) {
        if (threadIdx.x < s) sh[threadIdx.x] += sh[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[0] = sh[0];
}
