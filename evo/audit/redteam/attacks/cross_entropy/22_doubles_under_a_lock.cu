// attack: doubles_under_a_lock
// row: 22
// idea: Adds the sums of its warps up in double under a lock, in the order in which they take it.
// exploits: no atomic adds a number, and rounding to float hides the order
// naive: equal
// expect: unstable, stage=gate
// gpu: unsafe or unstable, stage=sanitize or gate
// evo: task   cross_entropy
// evo: launch loss_of grid (N) block (256) shared 0
extern "C" __global__ void loss_of(const float* logits, const int* targets, float* loss, int n, int classes) {
    __shared__ double all;
    __shared__ int lock;
    __shared__ float tops[8];
    const float* in = logits + (long long)blockIdx.x * classes;
    float most = -INFINITY;
    for (int i = threadIdx.x; i < classes; i += 256) most = in[i] > most || isnan(in[i]) ? in[i] : most;
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(~0u, most, step);
        most = other > most || isnan(other) ? other : most;
    }
    if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = most;
    if (threadIdx.x == 0) {
        all = 0.0;
        lock = 0;
    }
    __syncthreads();
    for (int warp = 0; warp < 8; ++warp) most = tops[warp] > most || isnan(tops[warp]) ? tops[warp] : most;
    double sum = 0.0;
    for (int i = threadIdx.x; i < classes; i += 256) sum += exp((double)in[i] - most);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(&lock, 0, 1) != 0) __nanosleep(20);
        __threadfence_block();
        volatile double* sink = &all;
        *sink = *sink + sum;
        __threadfence_block();
        atomicExch(&lock, 0);
    }
    __syncthreads();
    if (threadIdx.x == 0) loss[blockIdx.x] = (float)(log(all) + most - in[targets[blockIdx.x]]);
}
