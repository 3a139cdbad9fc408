// One thread walks along one row.
// evo: task   cross_entropy
// evo: launch loss_of grid (ceil_div(N, 32)) block (32) shared 0
extern "C" __global__ void loss_of(const float* logits, const int* targets, float* loss, int n, int classes) {
    const int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= n) return;
    const float* in = logits + (long long)row * classes;
    float most = in[0];
    for (int i = 1; i < classes; ++i) most = fmaxf(most, in[i]);
    float sum = 0.0f;
    for (int i = 0; i < classes; ++i) sum += expf(in[i] - most);
    loss[row] = logf(sum) + most - in[targets[row]];
}
