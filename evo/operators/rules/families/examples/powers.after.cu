// evo: task powers
// evo: launch robust grid (ceil_div(N, 256)) block (256) shared 0
extern "C" __global__ void robust(const float* x, const float* t, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = ((x[i] - t[i]) * (x[i] - t[i])) / (1.0f + ((x[i] - t[i]) * (x[i] - t[i])));
}
