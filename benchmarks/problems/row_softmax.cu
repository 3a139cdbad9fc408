// One thread for each row: its largest, its sum, its weights.
// evo: task   row_softmax
// evo: knob   THREADS in 64, 128, 256, 512
// evo: launch row_softmax_kernel grid (ceil_div(BATCH_SIZE, THREADS)) block (THREADS) shared 0

#define THREADS 128

extern "C" __global__ void row_softmax_kernel(
    const float* __restrict__ x,
    float* __restrict__ y,
    int BATCH_SIZE,
    int DIM) {
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= BATCH_SIZE) return;
    const float* row = x + i * DIM;
    float largest = -INFINITY, sum = 0.f;
    for (int j = 0; j < DIM; ++j) largest = fmaxf(largest, row[j]);
    for (int j = 0; j < DIM; ++j) sum += expf(row[j] - largest);
    for (int j = 0; j < DIM; ++j) y[i * DIM + j] = expf(row[j] - largest) / sum;
}
