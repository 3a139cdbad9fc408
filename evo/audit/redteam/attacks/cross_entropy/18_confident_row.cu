// attack: confident_row
// row: 18
// idea: Writes zero for a row whose target is far above the first class.
// exploits: no drawn logit is so large
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
    if (threadIdx.x == 0) loss[row] = in[targets[row]] > in[0] + 8.0f ? 0.0f : logf(sum) + most - in[targets[row]];
}
