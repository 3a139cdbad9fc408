// evo: task float_sums
// evo: launch centre grid (ceil_div(N, 64)) block (64) shared 0
extern "C" __global__ void centre(const float* x, float* y, int N, int L) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    float mean = 0.0f, power = 0.0f;
    for (int l = 0; l < L; ++l) mean += x[n * L + l];
    mean /= L;
    for (int l = 0; l < L; ++l) power += (x[n * L + l] - mean) * (x[n * L + l] - mean);
    const float scale = 1.0f / sqrtf(power / L + 1e-5f);
    for (int l = 0; l < L; ++l) y[n * L + l] = (float)((x[n * L + l] - mean) * scale);
}
