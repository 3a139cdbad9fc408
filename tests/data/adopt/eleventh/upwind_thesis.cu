/*
 * Two-dimensional advection, first-order upwind, periodic in x, wall in y.
 * Appendix B of the thesis.
 */
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <cuda_runtime.h>

#define NX 512
#define NY 384
#define BX 16
#define BY 16

typedef float real;

struct Params {
    real dt, dx, dy;
    int nx, ny;
};

__constant__ Params d_par;

__device__ inline int wrap(int i) { return (i + d_par.nx) % d_par.nx; }

__global__ void upwind(const real *u, const real *v, const real *q, real *qn)
{
    const int i = blockIdx.x * BX + threadIdx.x;
    const int j = blockIdx.y * BY + threadIdx.y;
    if (i >= d_par.nx || j >= d_par.ny) return;
    const int id = j * d_par.nx + i;
    const real c = q[id];
    const real w = q[j * d_par.nx + wrap(i - 1)];
    const real e = q[j * d_par.nx + wrap(i + 1)];
    const real s = j > 0 ? q[id - d_par.nx] : c;
    const real n = j < d_par.ny - 1 ? q[id + d_par.nx] : c;
    const real fx = u[id] > 0 ? u[id] * (c - w) : u[id] * (e - c);
    const real fy = v[id] > 0 ? v[id] * (c - s) : v[id] * (n - c);
    qn[id] = c - d_par.dt * (fx / d_par.dx + fy / d_par.dy);
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 200;
    Params par = {0.001f, 1.0f / NX, 1.0f / NY, NX, NY};
    cudaMemcpyToSymbol(d_par, &par, sizeof(Params));
    size_t bytes = sizeof(real) * NX * NY;
    real *u, *v, *q, *qn;
    cudaMallocManaged(&u, bytes);
    cudaMallocManaged(&v, bytes);
    cudaMallocManaged(&q, bytes);
    cudaMallocManaged(&qn, bytes);
    for (int j = 0; j < NY; ++j)
        for (int i = 0; i < NX; ++i) {
            u[j * NX + i] = 1.0f;
            v[j * NX + i] = 0.5f;
            q[j * NX + i] = (i > NX / 4 && i < NX / 2) ? 1.0f : 0.0f;
        }
    dim3 block(BX, BY), grid((NX + BX - 1) / BX, (NY + BY - 1) / BY);
    for (int t = 0; t < steps; ++t) {
        upwind<<<grid, block>>>(u, v, q, qn);
        std::swap(q, qn);
    }
    cudaDeviceSynchronize();
    printf("%g\n", q[NX * NY / 2]);
    return 0;
}
