// rms norm: 256 threads a row, reduction in shared memory, sqrtf and a division for each element
// evo: task rmsnorm
// evo: launch rms grid (ROWS) block (256) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void rms(const half* x, const half* w, half* y, float eps, int rows, int cols) {
    __shared__ float ss[256];
    const half* xi = x + blockIdx.x * cols;
    half* yi = y + blockIdx.x * cols;
    float part = 0.f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float v = __half2float(xi[i]);
        part += v * v;
    }
    ss[threadIdx.x] = part;
    __syncthreads();
    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (threadIdx.x < stride) ss[threadIdx.x] += ss[threadIdx.x + stride];
        __syncthreads();
    }
    float rms = sqrtf(ss[0] / cols + eps);
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        yi[i] = __float2half(__half2float(xi[i]) / rms * __half2float(w[i]));
}
