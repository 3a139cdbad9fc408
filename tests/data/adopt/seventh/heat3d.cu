// Explicit heat equation in three dimensions. Part of my master's thesis.
#include <cstdio>
#include <cstdlib>
#include <utility>

#define CHECK(x)                                                     \
    if (auto err = (x); err != cudaSuccess) {                        \
        std::printf("CUDA error %d at line %d\n", (int)err, __LINE__); \
        std::exit(1);                                                \
    }

struct Grid {
    int nx, ny, nz;
    double h, dt, kappa;
    __host__ __device__ inline int idx(int x, int y, int z) const { return (z * ny + y) * nx + x; }
    __host__ __device__ inline double r() const { return kappa * dt / (h * h); }
};

__global__ void step(const Grid g, const double* __restrict__ u, double* __restrict__ unew)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= g.nx || y >= g.ny || z >= g.nz) return;
    int i = g.idx(x, y, z);
    if (x == 0 || y == 0 || z == 0 || x == g.nx - 1 || y == g.ny - 1 || z == g.nz - 1) {
        unew[i] = u[i];
        return;
    }
    double lap = u[g.idx(x - 1, y, z)] + u[g.idx(x + 1, y, z)]
               + u[g.idx(x, y - 1, z)] + u[g.idx(x, y + 1, z)]
               + u[g.idx(x, y, z - 1)] + u[g.idx(x, y, z + 1)] - 6.0 * u[i];
    unew[i] = u[i] + g.r() * lap;
}

int main()
{
    Grid g;
    g.nx = 96; g.ny = 80; g.nz = 64;
    g.h = 0.01;
    g.dt = 1e-5;
    g.kappa = 1.0;
    const size_t bytes = sizeof(double) * g.nx * g.ny * g.nz;

    double* h = (double*)calloc(g.nx * g.ny * g.nz, sizeof(double));
    h[g.idx(g.nx / 2, g.ny / 2, g.nz / 2)] = 1.0;
    double *d_u, *d_unew;
    CHECK(cudaMalloc(&d_u, bytes));
    CHECK(cudaMalloc(&d_unew, bytes));
    CHECK(cudaMemcpy(d_u, h, bytes, cudaMemcpyHostToDevice));

    dim3 block(32, 4, 2);
    dim3 grid((g.nx + block.x - 1) / block.x, (g.ny + block.y - 1) / block.y, (g.nz + block.z - 1) / block.z);
    const int steps = 1000;
    for (int t = 0; t < steps; ++t) {
        step<<<grid, block>>>(g, d_u, d_unew);
        std::swap(d_u, d_unew);
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(h, d_u, bytes, cudaMemcpyDeviceToHost));
    std::printf("%g\n", h[g.idx(g.nx / 2, g.ny / 2, g.nz / 2)]);
    cudaFree(d_u);
    cudaFree(d_unew);
    free(h);
}
