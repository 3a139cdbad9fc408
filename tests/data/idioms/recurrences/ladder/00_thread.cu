// evo: task   recurrences
// evo: launch rows grid (ceil_div(N, 64)) block (64)
// evo: launch columns grid (ceil_div(L, 64)) block (64)
extern "C" __global__ void rows(const float* w, const float* x, float* along, float* down, int N, int L) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    float h = 0.0f;
    for (int l = 0; l < L; ++l) {
        const float a = tanhf(w[n * L + l]);
        h = a * h + x[n * L + l];
        along[n * L + l] = h;
    }
}

extern "C" __global__ void columns(const float* w, const float* x, float* along, float* down, int N, int L) {
    int l = blockIdx.x * blockDim.x + threadIdx.x;
    if (l >= L) return;
    float h = 0.0f;
    for (int n = 0; n < N; ++n) {
        const float a = tanhf(w[n * L + l]);
        h = a * h + x[n * L + l];
        down[n * L + l] = h;
    }
}
