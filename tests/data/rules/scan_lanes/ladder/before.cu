// evo: task scan_lanes
// evo: launch totals grid (ceil_div(N, 64)) block (64) shared 0
extern "C" __global__ void totals(const float* x, float* y, float* last, int N, int L) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < N) {
        float total = 0.0f;
        for (int l = 0; l < L; ++l) {
            total += x[n * L + l];
            y[n * L + l] = total;
        }
        last[n] = total;
    }
}
