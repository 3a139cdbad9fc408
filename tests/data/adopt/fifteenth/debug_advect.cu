#include <cassert>
#include <cstdio>
#include <cuda_runtime.h>
#define DEBUG 0
// semi-lagrangian advection of a dye, periodic; units: cells per step
__device__ __forceinline__ int wrap(int i, int n) { return (i % n + n) % n; }

__global__ void advect(const float* __restrict__ dye, const float2* __restrict__ vel, float* __restrict__ next, int2 dims, float dt)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= dims.x || y >= dims.y) return;
    const int i = y * dims.x + x;
    assert(i < dims.x * dims.y);
    float px = x - dt * vel[i].x, py = y - dt * vel[i].y;
    float fx = floorf(px), fy = floorf(py);
    float ax = px - fx, ay = py - fy;
    int x0 = wrap((int)fx, dims.x), x1 = wrap((int)fx + 1, dims.x);
    int y0 = wrap((int)fy, dims.y), y1 = wrap((int)fy + 1, dims.y);
    float v = (1 - ay) * ((1 - ax) * dye[y0 * dims.x + x0] + ax * dye[y0 * dims.x + x1])
            + ay * ((1 - ax) * dye[y1 * dims.x + x0] + ax * dye[y1 * dims.x + x1]);
#if DEBUG
    if (x == 0 && y == 0) printf("v = %f\n", v);
#endif
    next[i] = v;
}

int main()
{
    int2 dims = make_int2(640, 360);
    const int n = dims.x * dims.y;
    float *dye, *next; float2* vel;
    cudaMallocManaged(&dye, n * sizeof(float));
    cudaMallocManaged(&next, n * sizeof(float));
    cudaMallocManaged(&vel, n * sizeof(float2));
    for (int i = 0; i < n; ++i) { dye[i] = i % 13; vel[i] = make_float2(0.3f, -0.7f); }
    dim3 b(32, 4), g((dims.x + b.x - 1) / b.x, (dims.y + b.y - 1) / b.y);
    for (int step = 0; step < 50; ++step) {
        advect<<<g, b>>>(dye, vel, next, dims, 0.1f);
        cudaDeviceSynchronize();
        float* t = dye; dye = next; next = t;
    }
    printf("%f\n", dye[0]);
    return 0;
}
