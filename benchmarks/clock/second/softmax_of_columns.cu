// Softmax along the slow axis: threads of a column meet in shared memory, values are read three times.
// sizes N=1048576 W=2048
// evo: task clock
// evo: knob TX in 16, 32, 64
// evo: knob TY in 2, 4, 8, 16
// evo: knob FUSED in 0, 1
// evo: launch softmax grid (W // TX) block (TX, TY) shared 0
#define TX 16
#define TY 2
#define FUSED 0
extern "C" __global__ void softmax(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    __shared__ float peak[TY][TX], total[TY][TX];
    const int c = blockIdx.x * TX + threadIdx.x, height = N / W;
    float m = -1e30f, s = 0.f;
    for (int r = threadIdx.y; r < height; r += TY) {
        const float v = a[r * W + c];
        if (FUSED && v > m) s *= __expf(m - v);
        m = fmaxf(m, v);
        if (FUSED) s += __expf(v - m);
    }
    peak[threadIdx.y][threadIdx.x] = m;
    __syncthreads();
    float top = m;
    for (int k = 0; k < TY; ++k) top = fmaxf(top, peak[k][threadIdx.x]);
    if (FUSED) s *= __expf(m - top);
    else
        for (int r = threadIdx.y; r < height; r += TY) s += __expf(a[r * W + c] - top);
    total[threadIdx.y][threadIdx.x] = s;
    __syncthreads();
    s = 0.f;
    for (int k = 0; k < TY; ++k) s += total[k][threadIdx.x];
    for (int r = threadIdx.y; r < height; r += TY) out[r * W + c] = __fdividef(__expf(a[r * W + c] - top), s);
}
