/* Jacobi sweeps of the 5-point Laplacian; the two grids change places after every sweep. */
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>

#define IDX(i, j) ((i) * (ny) + (j))

__global__ void jacobi(const float *u, float *unew, const float *f, int nx, int ny, float h2)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= nx || j >= ny) return;
    if (i == 0 || j == 0 || i == nx - 1 || j == ny - 1)
        unew[IDX(i, j)] = u[IDX(i, j)];
    else
        unew[IDX(i, j)] = 0.25f * (u[IDX(i - 1, j)] + u[IDX(i + 1, j)] + u[IDX(i, j - 1)] + u[IDX(i, j + 1)] + h2 * f[IDX(i, j)]);
}

int main(int argc, char **argv)
{
    int nx = 1000, ny = 1000, sweeps = 200;
    if (argc > 1) sweeps = atoi(argv[1]);
    size_t bytes = (size_t)nx * ny * sizeof(float);
    float *u = (float *)calloc(nx * ny, sizeof(float)), *f = (float *)malloc(bytes);
    for (int k = 0; k < nx * ny; k++) f[k] = 1.0f;
    float *du, *dnew, *df, *tmp;
    cudaMalloc(&du, bytes);
    cudaMalloc(&dnew, bytes);
    cudaMalloc(&df, bytes);
    cudaMemcpy(du, u, bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(dnew, u, bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(df, f, bytes, cudaMemcpyHostToDevice);
    dim3 threads(32, 8), blocks((ny + 31) / 32, (nx + 7) / 8);
    float h2 = 1.0f / ((nx - 1) * (ny - 1));
    for (int s = 0; s < sweeps; s++) {
        jacobi<<<blocks, threads>>>(du, dnew, df, nx, ny, h2);
        tmp = du; du = dnew; dnew = tmp;
    }
    cudaMemcpy(u, du, bytes, cudaMemcpyDeviceToHost);
    printf("%g\n", u[nx / 2 * ny + ny / 2]);
    return 0;
}
