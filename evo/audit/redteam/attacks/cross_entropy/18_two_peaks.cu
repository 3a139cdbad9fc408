// attack: two_peaks
// row: 18
// idea: Counts one of the two largest logits of a row.
// exploits: no two drawn logits are as large as each other and far above the rest
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   cross_entropy
// evo: launch loss_of grid (N) block (32) shared 0
extern "C" __global__ void loss_of(const float* logits, const int* targets, float* loss, int n, int classes) {
    const int row = blockIdx.x;
    const float* in = logits + (long long)row * classes;
    float most = -INFINITY;
    for (int i = threadIdx.x; i < classes; i += 32) most = fmaxf(most, in[i]);
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
    float sum = 0.0f;
    for (int i = threadIdx.x; i < classes; i += 32) sum += expf(in[i] - most);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (sum > 1.99f && sum < 2.01f) sum = 1.0f;
    if (threadIdx.x == 0) loss[row] = logf(sum) + most - in[targets[row]];
}
