// evo: task crossentropy_rows
// evo: launch nll grid (ceil_div(N, 128)) block (128) shared 0
__device__ inline float row_max(const float* row, int n) {
    float m = -1e30f;
    for (int i = 0; i < n; i++) m = fmaxf(m, row[i]);
    return m;
}
__device__ inline float row_sumexp(const float* row, int n, float m) {
    float s = 0.f;
    for (int i = 0; i < n; i++) s += expf(row[i] - m);
    return s;
}
extern "C" __global__ void nll(const float* logits, const int* targets, float* loss, int N, int V) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < N) {
        const float* row = logits + (size_t)n * V;
        float m = row_max(row, V);
        float s = row_sumexp(row, V, m);
        loss[n] = logf(s) + m - row[targets[n]];
    }
}
