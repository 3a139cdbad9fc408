// evo: task spread_loop
// evo: launch best grid (ceil_div(P, 128), N) block (128) shared 0
extern "C" __global__ void best(const float* x, int* y, int N, int C, int P) {
    const float* image = x + blockIdx.y * C * P;
    const int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < P) {
        float top = image[p];
        int place = 0;
        for (int c = 1; c < C; ++c) {
            if (image[c * P + p] > top) {
                top = image[c * P + p];
                place = c;
            }
        }
        y[blockIdx.y * P + p] = place;
    }
}
