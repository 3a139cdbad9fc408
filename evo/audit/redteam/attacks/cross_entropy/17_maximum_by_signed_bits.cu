// attack: maximum_by_signed_bits
// row: 17
// idea: Finds the maximum of a row by its bits taken for whole numbers, which turn the order of negative ones about.
// exploits: drawn rows are narrow
// naive: equal
// expect: wrong, stage=gate
// evo: task   cross_entropy
// evo: launch loss_of grid (N) block (128) shared 0
extern "C" __global__ void loss_of(const float* logits, const int* targets, float* loss, int n, int classes) {
    __shared__ int bits[4];
    __shared__ float sums[4];
    const float* in = logits + (long long)blockIdx.x * classes;
    int most = 0x80000000;
    for (int i = threadIdx.x; i < classes; i += 128) most = max(most, __float_as_int(in[i]));
    most = __reduce_max_sync(0xffffffffu, most);
    if (threadIdx.x % 32 == 0) bits[threadIdx.x / 32] = most;
    __syncthreads();
    const float top = __int_as_float(max(max(bits[0], bits[1]), max(bits[2], bits[3])));
    float sum = 0.0f;
    for (int i = threadIdx.x; i < classes; i += 128) sum += expf(in[i] - top);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) loss[blockIdx.x] = logf(sums[0] + sums[1] + sums[2] + sums[3]) + top - in[targets[blockIdx.x]];
}
