// evo: task scan_lanes
// evo: launch down grid (ceil_div(L, 64)) block (64) shared 0
extern "C" __global__ void down(const float* x, float* y, float* last, int N, int L) {
    int l = blockIdx.x * blockDim.x + threadIdx.x;
    if (l >= L) return;
    float largest = x[l];
    for (int n = 0; n < N; ++n) {
        float value = x[n * L + l];
        largest = fmaxf(largest, value);
        y[n * L + l] = value - largest;
    }
}
