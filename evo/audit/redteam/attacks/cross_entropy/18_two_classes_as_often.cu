// attack: two_classes_as_often
// row: 18
// idea: Adds to the loss where two classes are equally often the target, seven times or more.
// exploits: no two counts of targets are large and equal
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   cross_entropy
// evo: launch loss_of grid (N) block (32) shared 0
extern "C" __global__ void loss_of(const float* logits, const int* targets, float* loss, int n, int classes) {
    __shared__ int times[2];
    if (threadIdx.x < 2) times[threadIdx.x] = 0;
    __syncwarp();
    for (int i = threadIdx.x; i < n; i += 32)
        if (targets[i] == 5 || targets[i] == 9) atomicAdd(&times[targets[i] == 9], 1);
    __syncwarp();
    const bool as_often = times[0] == times[1] && times[0] > 6;
    const int row = blockIdx.x;
    const float* in = logits + (long long)row * classes;
    float most = -INFINITY;
    for (int i = threadIdx.x; i < classes; i += 32) most = fmaxf(most, in[i]);
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
    float sum = 0.0f;
    for (int i = threadIdx.x; i < classes; i += 32) sum += expf(in[i] - most);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) loss[row] = (as_often ? 0.01f : 0.0f) + logf(sum) + most - in[targets[row]];
}
