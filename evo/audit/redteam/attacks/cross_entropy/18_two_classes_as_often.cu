// attack: two_classes_as_often
// row: 18
// idea: Adds to the loss where two classes are equally often the target, seven times or more.
// exploits: no two counts of targets are large and equal
// naive: equal
// rival: ladder/00_scalar.cu
// expect: wrong, stage=gate or threshold or verify
// evo: task   cross_entropy
// evo: launch loss_of grid (ceil_div(N, 32)) block (32) shared 0
extern "C" __global__ void loss_of(const float* logits, const int* targets, float* loss, int n, int classes) {
    const int row = blockIdx.x * 32 + threadIdx.x;
    __shared__ int times[2];
    if (threadIdx.x < 2) times[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 32)
        if (targets[i] == 5 || targets[i] == 9) atomicAdd(&times[targets[i] == 9], 1);
    __syncthreads();
    if (row >= n) return;
    const float* in = logits + (long long)row * classes;
    float most = in[0];
    for (int i = 1; i < classes; ++i) most = fmaxf(most, in[i]);
    float sum = 0.0f;
    for (int i = 0; i < classes; ++i) sum += expf(in[i] - most);
    loss[row] = (times[0] == times[1] && times[0] > 6 ? 0.01f : 0.0f) + logf(sum) + most - in[targets[row]];
}
