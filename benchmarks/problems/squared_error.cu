// One thread for each row.
// evo: task   squared_error
// evo: knob   THREADS in 64, 128, 256, 512
// evo: launch squared_error_kernel grid (ceil_div(BATCH, THREADS)) block (THREADS) shared 0

#define THREADS 256

extern "C" __global__ void squared_error_kernel(
    const float* __restrict__ predictions,
    const float* __restrict__ targets,
    float* __restrict__ y,
    int BATCH,
    int DIM) {
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (long long)BATCH) return;
    float sum = 0.f;
    for (int j = 0; j < DIM; ++j) {
        const float difference = predictions[i * DIM + j] - targets[i * DIM + j];
        sum += difference * difference;
    }
    y[i] = sum / DIM;
}
