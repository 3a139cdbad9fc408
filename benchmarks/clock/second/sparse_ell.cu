// A sparse matrix in ELLPACK: entries of a row lie a whole column apart, and their columns are random or near.
// sizes N=4194304 W=16
// evo: task clock
// evo: knob THREADS in 32, 64, 128, 256, 512
// evo: knob NEAR in 0, 1
// evo: knob AHEAD in 1, 4
// evo: launch multiply grid (N // W // THREADS) block (THREADS) shared 0
#define THREADS 32
#define NEAR 0
#define AHEAD 1
extern "C" __global__ void multiply(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    const int rows = N / W, row = blockIdx.x * THREADS + threadIdx.x;
    float sum = 0;
#pragma unroll AHEAD
    for (int k = 0; k < 16; ++k) {
        const int at = k * rows + row;
        const int column = NEAR ? min(row + (idx[at] & 63), rows - 1) : idx[at] & (rows - 1);
        sum += a[at] * b[column];
    }
    out[row] = sum;
}
