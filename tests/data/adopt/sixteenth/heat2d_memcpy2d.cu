/*
 * 2D heat equation, explicit Euler. PHYS 410 project.
 * Rows are padded with cudaMallocPitch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>

typedef float real;
#define IDX(p, pitch, i, j) (*((real*)((char*)(p) + (i) * (pitch)) + (j)))

__global__ void step(real *unew, const real *u, size_t pitch, int nx, int ny, real c)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i > 0 && i < ny - 1 && j > 0 && j < nx - 1) {
        real mid = IDX(u, pitch, i, j);
        real lap = IDX(u, pitch, i - 1, j) + IDX(u, pitch, i + 1, j)
                 + IDX(u, pitch, i, j - 1) + IDX(u, pitch, i, j + 1) - 4 * mid;
        IDX(unew, pitch, i, j) = mid + c * lap;
    }
}

int main(int argc, char **argv)
{
    int nx = 2000, ny = 1000, nsteps = 500;
    if (argc == 4) { nx = atoi(argv[1]); ny = atoi(argv[2]); nsteps = atoi(argv[3]); }
    const real alpha = 0.1f, dx = 0.01f, dt = 0.0002f;
    const real c = alpha * dt / (dx * dx);

    real *h = (real*)calloc(nx * ny, sizeof(real));
    for (int i = 0; i < ny; i++)
        for (int j = 0; j < nx; j++)
            if ((i - ny / 2) * (i - ny / 2) + (j - nx / 2) * (j - nx / 2) < 100 * 100)
                h[i * nx + j] = 65.0f;

    real *d0, *d1, *tmp;
    size_t pitch;
    cudaMallocPitch((void**)&d0, &pitch, nx * sizeof(real), ny);
    cudaMallocPitch((void**)&d1, &pitch, nx * sizeof(real), ny);
    cudaMemcpy2D(d0, pitch, h, nx * sizeof(real), nx * sizeof(real), ny, cudaMemcpyHostToDevice);
    cudaMemcpy2D(d1, pitch, h, nx * sizeof(real), nx * sizeof(real), ny, cudaMemcpyHostToDevice);

    dim3 threads(32, 8);
    dim3 blocks((nx + threads.x - 1) / threads.x, (ny + threads.y - 1) / threads.y);

    cudaEvent_t start, stop;
    float ms;
    cudaEventCreate(&start); cudaEventCreate(&stop);
    cudaEventRecord(start, 0);
    for (int t = 0; t < nsteps; t++) {
        step<<<blocks, threads>>>(d1, d0, pitch, nx, ny, c);
        tmp = d0; d0 = d1; d1 = tmp;
    }
    cudaEventRecord(stop, 0);
    cudaEventSynchronize(stop);
    cudaEventElapsedTime(&ms, start, stop);
    printf("%d steps in %f ms\n", nsteps, ms);
    cudaMemcpy2D(h, nx * sizeof(real), d0, pitch, nx * sizeof(real), ny, cudaMemcpyDeviceToHost);
    FILE *f = fopen("heat.bin", "wb");
    fwrite(h, sizeof(real), nx * ny, f);
    fclose(f);
    cudaFree(d0); cudaFree(d1); free(h);
    return 0;
}
