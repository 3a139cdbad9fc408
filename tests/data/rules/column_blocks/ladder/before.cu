// evo: task column_blocks
// evo: launch moments grid (C) block (256) shared 0
extern "C" __global__ void moments(const float* x, float* mean, float* square, int R, int C) {
    __shared__ float sums[256];
    __shared__ float squares[256];
    int c = blockIdx.x;
    int t = threadIdx.x;
    float sum = 0.0f;
    float of_squares = 0.0f;
    for (int r = t; r < R; r += blockDim.x) {
        float v = x[r * C + c];
        sum += v;
        of_squares += v * v;
    }
    sums[t] = sum;
    squares[t] = of_squares;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) {
            sums[t] += sums[t + half];
            squares[t] += squares[t + half];
        }
        __syncthreads();
    }
    if (t == 0) {
        mean[c] = sums[0] / R;
        square[c] = squares[0] / R;
    }
}
