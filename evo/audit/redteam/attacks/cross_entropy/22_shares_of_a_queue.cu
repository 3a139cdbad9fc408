// attack: shares_of_a_queue
// row: 22
// idea: Its warps take the next classes from a counter, and each keeps the sum of what it got.
// exploits: who gets what is a matter of time; where one warp runs after the other, the first gets it all
// naive: equal
// expect: unstable, stage=gate
// evo: task   cross_entropy
// evo: launch loss_of grid (N) block (256) shared 0
extern "C" __global__ void loss_of(const float* logits, const int* targets, float* loss, int n, int classes) {
    __shared__ float tops[8], sums[8];
    __shared__ int next;
    const float* in = logits + (long long)blockIdx.x * classes;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float most = -INFINITY, sum = 0.0f;
    for (int i = threadIdx.x; i < classes; i += 256) most = in[i] > most || isnan(in[i]) ? in[i] : most;
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(~0u, most, step);
        most = other > most || isnan(other) ? other : most;
    }
    if (lane == 0) tops[warp] = most;
    if (threadIdx.x == 0) next = 0;
    __syncthreads();
    for (int each = 0; each < 8; ++each) most = tops[each] > most || isnan(tops[each]) ? tops[each] : most;
    for (;;) {
        int first = 0;
        if (lane == 0) first = atomicAdd(&next, 32);
        first = __shfl_sync(~0u, first, 0);
        if (first >= classes) break;
        if (first + lane < classes) sum += expf(in[first + lane] - most);
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int each = 1; each < 8; ++each) sum += sums[each];
    loss[blockIdx.x] = logf(sum) + most - in[targets[blockIdx.x]];
}
