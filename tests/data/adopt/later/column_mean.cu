// mean of every column (batch statistics); student project, double pointers wrapped in a struct on the host only
#include <cuda_runtime.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS_PER_BLOCK 128
#define SAFE(x) do { if ((x) != cudaSuccess) { printf("cuda failure %d\n", __LINE__); return -1; } } while (0)

typedef float real_t;

__global__ void col_mean(const real_t *mat, real_t *mean, const int n_rows, const int n_cols)
{
    const int c = threadIdx.x + blockIdx.x * blockDim.x;
    if (c < n_cols)
    {
        real_t acc = 0;
        for (int r = 0; r < n_rows; r++)
            acc += mat[r * n_cols + c];
        mean[c] = acc / n_rows;
    }
}

int run(int n_rows, int n_cols)
{
    real_t *host = (real_t *)malloc(sizeof(real_t) * n_rows * n_cols);
    real_t *host_mean = (real_t *)malloc(sizeof(real_t) * n_cols);
    for (int i = 0; i < n_rows * n_cols; i++) host[i] = rand() / (real_t)RAND_MAX;
    real_t *dev_mat, *dev_mean;
    SAFE(cudaMalloc((void **)&dev_mat, sizeof(real_t) * n_rows * n_cols));
    SAFE(cudaMalloc((void **)&dev_mean, sizeof(real_t) * n_cols));
    SAFE(cudaMemcpy(dev_mat, host, sizeof(real_t) * n_rows * n_cols, cudaMemcpyHostToDevice));
    const dim3 grid((n_cols + THREADS_PER_BLOCK - 1) / THREADS_PER_BLOCK);
    col_mean<<<grid, THREADS_PER_BLOCK>>>(dev_mat, dev_mean, n_rows, n_cols);
    SAFE(cudaDeviceSynchronize());
    SAFE(cudaMemcpy(host_mean, dev_mean, sizeof(real_t) * n_cols, cudaMemcpyDeviceToHost));
    printf("%g\n", host_mean[0]);
    cudaFree(dev_mat);
    cudaFree(dev_mean);
    free(host);
    free(host_mean);
    return 0;
}

int main(void) { return run(2048, 512); }
