// One thread for each element.
// evo: task   gelu_scaled
// evo: knob   THREADS in 64, 128, 256, 512
// evo: launch gelu_scaled_kernel grid (ceil_div(BATCH_SIZE * DIM, THREADS)) block (THREADS) shared 0

#define THREADS 256

extern "C" __global__ void gelu_scaled_kernel(
    const float* __restrict__ x,
    float* __restrict__ y,
    int BATCH_SIZE,
    int DIM) {
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (long long)BATCH_SIZE * DIM) return;
    const float v = 0.5f * x[i];
    y[i] = 0.5f * v * (1.f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
}
