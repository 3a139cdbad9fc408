// evo: task float_sums
// evo: launch centre grid (ceil_div(N, 64)) block (64) shared 0
extern "C" __global__ void centre(const float* x, float* y, int N, int L) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    double mean = 0.0, power = 0.0;
    for (int l = 0; l < L; ++l) mean += x[n * L + l];
    mean /= L;
    for (int l = 0; l < L; ++l) power += ((double)x[n * L + l] - mean) * (x[n * L + l] - mean);
    const double scale = 1.0 / sqrt(power / L + 1e-5);
    for (int l = 0; l < L; ++l) y[n * L + l] = (float)((x[n * L + l] - mean) * scale);
}
