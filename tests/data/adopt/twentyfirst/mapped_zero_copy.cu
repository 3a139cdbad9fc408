#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>

// y[i] = sum over a window of 9 of x, zero copy (mapped) memory

#define RADIUS 4
#define TPB 128

__global__ void window_sum(const float *x, float *y, const int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float s = 0;
        for (int k = -RADIUS; k <= RADIUS; k++) {
            int j = i + k;
            if (j >= 0 && j < n) s += x[j];
        }
        y[i] = s;
    }
}

int main(void)
{
    int ret = EXIT_FAILURE;
    const int n = 1 << 20;
    float *hx = NULL, *hy = NULL, *dx = NULL, *dy = NULL;
    cudaError_t status;

    status = cudaSetDeviceFlags(cudaDeviceMapHost);
    if (status != cudaSuccess) goto Error;
    status = cudaHostAlloc((void **)&hx, n * sizeof(float), cudaHostAllocMapped | cudaHostAllocWriteCombined);
    if (status != cudaSuccess) {
        fprintf(stderr, "cudaHostAlloc failed!");
        goto Error;
    }
    status = cudaHostAlloc((void **)&hy, n * sizeof(float), cudaHostAllocMapped);
    if (status != cudaSuccess) {
        fprintf(stderr, "cudaHostAlloc failed!");
        goto Error;
    }
    for (int i = 0; i < n; i++) hx[i] = rand() / (float)RAND_MAX;
    status = cudaHostGetDevicePointer((void **)&dx, hx, 0);
    if (status != cudaSuccess) goto Error;
    status = cudaHostGetDevicePointer((void **)&dy, hy, 0);
    if (status != cudaSuccess) goto Error;

    window_sum<<<(n + TPB - 1) / TPB, TPB>>>(dx, dy, n);
    status = cudaGetLastError();
    if (status != cudaSuccess) {
        fprintf(stderr, "launch failed: %s\n", cudaGetErrorString(status));
        goto Error;
    }
    cudaDeviceSynchronize();
    printf("y[0] = %f, y[n-1] = %f\n", hy[0], hy[n - 1]);
    ret = EXIT_SUCCESS;

Error:
    cudaFreeHost(hx);
    cudaFreeHost(hy);
    return ret;
}
