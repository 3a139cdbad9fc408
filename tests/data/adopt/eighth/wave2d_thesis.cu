// 2D wave equation, leap-frog, three time levels that change places
#include <cstdio>
#include <cmath>
#include <algorithm>
#include <cuda_runtime.h>

using real = float;

static const int NX = 1024;
static const int NY = 512;
static const int STEPS = 200;
const int BX = 32;
const int BY = 4;

__device__ inline int at(int i, int j) { return j * NX + i; }

__global__ void step(const real *u, const real *u_old, real *u_new, const real *c2, real dtdx2)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i > 0 && i < NX - 1 && j > 0 && j < NY - 1) {
        real lap = u[at(i - 1, j)] + u[at(i + 1, j)] + u[at(i, j - 1)] + u[at(i, j + 1)] - 4 * u[at(i, j)];
        u_new[at(i, j)] = 2 * u[at(i, j)] - u_old[at(i, j)] + c2[at(i, j)] * dtdx2 * lap;
    }
}

int main()
{
    const size_t bytes = sizeof(real) * NX * NY;
    real *u, *u_old, *u_new, *c2;
    cudaMallocManaged(&u, bytes);
    cudaMallocManaged(&u_old, bytes);
    cudaMallocManaged(&u_new, bytes);
    cudaMallocManaged(&c2, bytes);
    for (int j = 0; j < NY; ++j)
        for (int i = 0; i < NX; ++i) {
            real r2 = (i - NX / 2) * (i - NX / 2) + (j - NY / 2) * (j - NY / 2);
            u[j * NX + i] = u_old[j * NX + i] = std::exp(-r2 / 200);
            u_new[j * NX + i] = 0;
            c2[j * NX + i] = i < NX / 2 ? 1.0f : 0.5f;
        }
    const real dt = 0.5f, dx = 1.0f;
    dim3 block(BX, BY);
    dim3 grid((NX + BX - 1) / BX, (NY + BY - 1) / BY);
    for (int s = 0; s < STEPS; ++s) {
        step<<<grid, block>>>(u, u_old, u_new, c2, dt * dt / (dx * dx));
        real *t = u_old;
        u_old = u;
        u = u_new;
        u_new = t;
    }
    cudaDeviceSynchronize();
    printf("u(center) = %g\n", u[NY / 2 * NX + NX / 2]);
    cudaFree(u); cudaFree(u_old); cudaFree(u_new); cudaFree(c2);
}
