// One thread for each element of each product.
// evo: task   batched_matmul
// evo: knob   THREADS in 64, 128, 256, 512
// evo: launch batched_matmul_kernel grid (ceil_div(BATCH * M * N, THREADS)) block (THREADS) shared 0

#define THREADS 256

extern "C" __global__ void batched_matmul_kernel(
    const float* __restrict__ a,
    const float* __restrict__ b,
    float* __restrict__ y,
    int BATCH,
    int M,
    int K,
    int N) {
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (long long)BATCH * M * N) return;
    const int column = i % N, row = i / N % M, batch = i / N / M;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += a[((long long)batch * M + row) * K + k] * b[((long long)batch * K + k) * N + column];
    y[i] = sum;
}
