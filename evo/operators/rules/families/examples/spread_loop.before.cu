// evo: task spread_loop
// evo: launch best grid (N) block (128) shared 0
extern "C" __global__ void best(const float* x, int* y, int N, int C, int P) {
    const float* image = x + blockIdx.x * C * P;
    for (int p = threadIdx.x; p < P; p += blockDim.x) {
        float top = image[p];
        int place = 0;
        for (int c = 1; c < C; ++c) {
            if (image[c * P + p] > top) {
                top = image[c * P + p];
                place = c;
            }
        }
        y[blockIdx.x * P + p] = place;
    }
}
