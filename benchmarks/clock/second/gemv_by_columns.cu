// The product of a transposed matrix and a vector: neighbouring threads have neighbouring columns, rows are split.
// sizes N=4194304 W=1024
// evo: task clock_zero
// evo: knob TX in 32, 64, 128
// evo: knob TY in 1, 4, 8
// evo: knob PARTS in 4, 16, 64
// evo: knob UNROLL in 1, 4, 8
// evo: require TX * TY <= 1024
// evo: launch gemv grid (W // TX, PARTS) block (TX, TY) shared 0
#define TX 32
#define TY 1
#define PARTS 4
#define UNROLL 1
extern "C" __global__ void gemv(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    __shared__ float sums[TY][TX];
    const int column = blockIdx.x * TX + threadIdx.x, rows = N / W / PARTS;
    float s = 0.f;
#pragma unroll UNROLL
    for (int r = threadIdx.y; r < rows; r += TY) {
        const int row = blockIdx.y * rows + r;
        s = fmaf(a[row * W + column], b[row], s);
    }
    sums[threadIdx.y][threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.y == 0) {
        for (int k = 1; k < TY; ++k) s += sums[k][threadIdx.x];
        atomicAdd(&out[column], s);
    }
}
