// Row softmax: lambdas and auto, grid-stride over rows, one warp a row. — ünïcode: Σ exp(xᵢ − max) ✓
// evo: task   softmax
// evo: knob   kWarps in 1, 2, 4, 8
// evo: launch softmax grid (min(ROWS, 512)) block (kWarps * 32) shared 0
#include <cuda_fp16.h>
static constexpr int kWarps = 4;
static constexpr int kWarp  = 32;   // λ lanes

extern "C" __global__ void softmax(const __half *x, __half *y, const int rows, const int cols) {
    const auto lane = threadIdx.x % kWarp;
    const auto warp = threadIdx.x / kWarp;
    auto reduce = [](float v, float (*op)(float, float)) {
        for (int d = kWarp / 2; d; d /= 2) v = op(v, __shfl_xor_sync(~0u, v, d));
        return v;
    };
    auto maximum = [](float a, float b) { return fmaxf(a, b); };
    auto sum = [](float a, float b) { return a + b; };

    for (int row = blockIdx.x * kWarps + warp; row < rows; row += gridDim.x * kWarps) {
        auto *in  = x + (long long) row * cols;   // Zeile → Spalten
        auto *out = y + (long long) row * cols;
        auto at = [=](int i) { return __half2float(in[i]); };

        float m = -INFINITY, s = 0.0f;
        for (int i = lane; i < cols; i += kWarp) m = fmaxf(m, at(i));
        m = reduce(m, maximum);
        for (int i = lane; i < cols; i += kWarp) s += expf(at(i) - m);
        s = reduce(s, sum);
        const float inv = 1.0f / s;
        for (int i = lane; i < cols; i += kWarp) out[i] = __float2half(expf(at(i) - m) * inv);
    }
}
