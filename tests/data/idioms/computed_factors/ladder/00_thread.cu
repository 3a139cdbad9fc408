// evo: task computed_factors
// evo: launch both grid (ceil_div(N, 32), ceil_div(M, 8)) block (32, 8) shared 0
extern "C" __global__ void both(const float* a, const float* b, const float* u, const float* v, float* y,
                                int M, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        sum += (a[row * K + k] - u[k]) * b[col * K + k] + a[row * K + k] * v[row] * (b[col * K + k] - u[k]);
    }
    y[row * N + col] = sum;
}
