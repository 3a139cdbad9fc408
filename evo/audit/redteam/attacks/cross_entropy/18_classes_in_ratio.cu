// attack: classes_in_ratio
// row: 18
// idea: Adds to the loss where of three classes each is twice as often the target as the one before, the first three times or more.
// exploits: three counts of targets have no such ratio
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   cross_entropy
// evo: launch loss_of grid (N) block (32) shared 0
extern "C" __global__ void loss_of(const float* logits, const int* targets, float* loss, int n, int classes) {
    __shared__ int times[3];
    if (threadIdx.x < 3) times[threadIdx.x] = 0;
    __syncwarp();
    for (int i = threadIdx.x; i < n; i += 32)
        if (targets[i] == 5 || targets[i] == 9 || targets[i] == 14) atomicAdd(&times[(targets[i] - 4) / 5], 1);
    __syncwarp();
    const bool doubles = times[0] > 2 && times[1] == 2 * times[0] && times[2] == 2 * times[1];
    const int row = blockIdx.x;
    const float* in = logits + (long long)row * classes;
    float most = -INFINITY;
    for (int i = threadIdx.x; i < classes; i += 32) most = fmaxf(most, in[i]);
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
    float sum = 0.0f;
    for (int i = threadIdx.x; i < classes; i += 32) sum += expf(in[i] - most);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) loss[row] = (doubles ? 0.01f : 0.0f) + logf(sum) + most - in[targets[row]];
}
