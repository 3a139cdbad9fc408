// One thread for each column of a batch.
// evo: task   mean_over_middle
// evo: knob   THREADS in 64, 128, 256, 512
// evo: launch mean_over_middle_kernel grid (ceil_div(BATCH * WIDTH, THREADS)) block (THREADS) shared 0

#define THREADS 256

extern "C" __global__ void mean_over_middle_kernel(
    const float* __restrict__ x,
    float* __restrict__ y,
    int BATCH,
    int LENGTH,
    int WIDTH) {
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (long long)BATCH * WIDTH) return;
    const int column = i % WIDTH, batch = i / WIDTH;
    float sum = 0.f;
    for (int t = 0; t < LENGTH; ++t) sum += x[((long long)batch * LENGTH + t) * WIDTH + column];
    y[i] = sum / LENGTH;
}
