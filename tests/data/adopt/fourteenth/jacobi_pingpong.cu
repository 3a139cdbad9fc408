/* Chapter 6, listing 6.4: Jacobi iteration for the Poisson equation on a square.
 * Compile: nvcc -O2 jacobi_pingpong.cu -o jacobi
 * Run:     ./jacobi [n] [iterations]
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

#define IDX(i, j, n) ((i) * (n) + (j))
#define CUDA_CALL(call)                                                           \
    do {                                                                          \
        cudaError_t status_ = call;                                               \
        if (status_ != cudaSuccess) {                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status_)); \
            exit(EXIT_FAILURE);                                                   \
        }                                                                         \
    } while (0)

__global__ void jacobi_step(const double *u, double *u_new, const double *f, int n, double h2)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int i = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (i < n - 1 && j < n - 1) {
        u_new[IDX(i, j, n)] = 0.25 * (u[IDX(i - 1, j, n)] + u[IDX(i + 1, j, n)] +
                                      u[IDX(i, j - 1, n)] + u[IDX(i, j + 1, n)] + h2 * f[IDX(i, j, n)]);
    }
}

static void fill_right_hand_side(double *f, int n)
{
    double h = 1.0 / (n - 1);
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
            f[IDX(i, j, n)] = 2.0 * M_PI * M_PI * sin(M_PI * i * h) * sin(M_PI * j * h);
}

int main(int argc, char *argv[])
{
    int n = 1026, iterations = 500;
    if (argc > 1) n = atoi(argv[1]);
    if (argc > 2) iterations = atoi(argv[2]);
    double h = 1.0 / (n - 1);
    size_t size = (size_t)n * n * sizeof(double);

    double *h_u = (double *)calloc(n * n, sizeof(double));
    double *h_f = (double *)malloc(size);
    fill_right_hand_side(h_f, n);

    double *d_u, *d_new, *d_f;
    CUDA_CALL(cudaMalloc((void **)&d_u, size));
    CUDA_CALL(cudaMalloc((void **)&d_new, size));
    CUDA_CALL(cudaMalloc((void **)&d_f, size));
    CUDA_CALL(cudaMemcpy(d_u, h_u, size, cudaMemcpyHostToDevice));
    CUDA_CALL(cudaMemcpy(d_new, h_u, size, cudaMemcpyHostToDevice));
    CUDA_CALL(cudaMemcpy(d_f, h_f, size, cudaMemcpyHostToDevice));

    dim3 block(16, 16);
    dim3 grid((n - 2 + block.x - 1) / block.x, (n - 2 + block.y - 1) / block.y);
    for (int k = 0; k < iterations; ++k) {
        jacobi_step<<<grid, block>>>(d_u, d_new, d_f, n, h * h);
        double *swap = d_u;
        d_u = d_new;
        d_new = swap;
    }
    CUDA_CALL(cudaGetLastError());
    CUDA_CALL(cudaMemcpy(h_u, d_u, size, cudaMemcpyDeviceToHost));

    printf("u(1/2, 1/2) = %.6f\n", h_u[IDX(n / 2, n / 2, n)]);
    cudaFree(d_u); cudaFree(d_new); cudaFree(d_f);
    free(h_u); free(h_f);
    return EXIT_SUCCESS;
}
