// One thread for each output feature of a row.
// evo: task   linear_relu
// evo: knob   THREADS in 64, 128, 256, 512
// evo: launch linear_relu_kernel grid (ceil_div(BATCH * FEATURES_OUT, THREADS)) block (THREADS) shared 0

#define THREADS 256

extern "C" __global__ void linear_relu_kernel(
    const float* __restrict__ x,
    const float* __restrict__ linear_weight,
    const float* __restrict__ linear_bias,
    float* __restrict__ y,
    int BATCH,
    int FEATURES_IN,
    int FEATURES_OUT) {
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (long long)BATCH * FEATURES_OUT) return;
    const int column = i % FEATURES_OUT, row = i / FEATURES_OUT;
    float sum = linear_bias[column];
    for (int k = 0; k < FEATURES_IN; ++k) sum += x[row * FEATURES_IN + k] * linear_weight[column * FEATURES_IN + k];
    y[i] = sum < 0.f ? 0.f : sum;
}
