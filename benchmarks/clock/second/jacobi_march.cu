// One step of a five-point stencil; a thread marches down a strip and keeps three rows of its column in registers.
// sizes N=4194304 W=2048
// evo: task clock
// evo: knob COLUMNS in 32, 64, 128, 256
// evo: knob STRIP in 2, 4, 8, 16, 64
// evo: knob LATERAL in 0, 1
// evo: launch jacobi grid (W // COLUMNS, N // W // STRIP) block (COLUMNS) shared 0
#define COLUMNS 32
#define STRIP 2
#define LATERAL 0
extern "C" __global__ void jacobi(const float* __restrict__ a, const float* b, const int* idx, float* __restrict__ out, int N, int W) {
    const int x = blockIdx.x * COLUMNS + threadIdx.x, height = N / W;
    int y = blockIdx.y * STRIP;
    const int end = y + STRIP;
    auto at = [&](int row, int column) { return a[min(max(row, 0), height - 1) * W + min(max(column, 0), W - 1)]; };
    float above = at(y - 1, x), here = at(y, x);
    for (; y < end; ++y) {
        const float below = at(y + 1, x);
#if LATERAL
        float left = __shfl_up_sync(0xffffffffu, here, 1), right = __shfl_down_sync(0xffffffffu, here, 1);
        if (threadIdx.x % 32 == 0) left = at(y, x - 1);
        if (threadIdx.x % 32 == 31) right = at(y, x + 1);
#else
        const float left = at(y, x - 1), right = at(y, x + 1);
#endif
        out[y * W + x] = 0.25f * (above + below + left + right);
        above = here;
        here = below;
    }
}
