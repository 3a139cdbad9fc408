// One thread for each mean of a window.
// evo: task   average_pool
// evo: knob   THREADS in 64, 128, 256, 512
// evo: launch average_pool_kernel grid (ceil_div(BATCH * CHANNELS * (SIZE // WINDOW) * (SIZE // WINDOW), THREADS)) block (THREADS) shared 0

#define THREADS 256

extern "C" __global__ void average_pool_kernel(
    const float* __restrict__ x,
    float* __restrict__ y,
    int BATCH,
    int CHANNELS,
    int SIZE,
    int WINDOW) {
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (long long)BATCH * CHANNELS * (SIZE / WINDOW) * (SIZE / WINDOW)) return;
    const int side = SIZE / WINDOW;
    const int column = i % side, row = i / side % side;
    const float* plane = x + i / side / side * SIZE * SIZE;
    float sum = 0.f;
    for (int dy = 0; dy < WINDOW; ++dy)
        for (int dx = 0; dx < WINDOW; ++dx) sum += plane[(row * WINDOW + dy) * SIZE + column * WINDOW + dx];
    y[i] = sum / (WINDOW * WINDOW);
}
