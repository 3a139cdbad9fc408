// RMS norm in macro style
// evo: task   rmsnorm
// evo: knob   NT in 64, 128, 256, 512
// evo: knob   ILP in 1, 2, 4
// evo: launch rmsnorm grid (ROWS) block (NT) shared 0
#include <cuda_fp16.h>
#define NT 128
#define ILP 2
#define WARPSZ      32
#define NWARPS      (NT / WARPSZ)
#define LANE        (threadIdx.x & (WARPSZ - 1))
#define FOR_EACH(i, n)  for (int i = threadIdx.x; i < (n); i += NT)
#define SQR(v)      ((v) * (v))
#define LOAD_F(p, i)    (__half2float((p)[(i)]))
#define WARP_SUM(v) do {                                   \
        for (int o_ = 16; o_ > 0; o_ >>= 1)                \
            (v) += __shfl_down_sync(0xffffffffu, (v), o_); \
    } while (0)

extern "C" __global__ void __launch_bounds__(NT, 2)
rmsnorm(const __half *x, const __half *w, __half *y, float eps, int rows, int cols)
{
    __shared__ float part[NWARPS];
    __shared__ float scale;
    const __half *xr = x + (long long)blockIdx.x * cols;
    __half       *yr = y + (long long)blockIdx.x * cols;
    float acc = 0.0f;

    FOR_EACH(i, cols) {
        acc += SQR(LOAD_F(xr, i));
    }
    WARP_SUM(acc);
    if (LANE == 0)
        part[threadIdx.x / WARPSZ] = acc;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0.0f;
        for (int i = 0; i < NWARPS; i++)
            total += part[i];
        scale = rsqrtf(total / cols + eps);
    }
    __syncthreads();
#pragma unroll ILP
    FOR_EACH(i, cols) {
        yr[i] = __float2half(LOAD_F(xr, i) * scale * LOAD_F(w, i));
    }
}
