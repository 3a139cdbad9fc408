// evo: task pairwise_distance
// evo: launch dist grid (ceil_div(M, 16), ceil_div(N, 16)) block (16, 16) shared 0
extern "C" __global__ void dist(const float* x, const float* y, float* d, int N, int M, int D) {
    const int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
    if (i < N && j < M) {
        float s = 0.0f;
        for (int k = 0; k < D; ++k) {
            float t = x[i * D + k] - y[j * D + k];
            s += t * t;
        }
        d[i * M + j] = s;
    }
}
