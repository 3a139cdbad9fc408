// Exercise: segmented Kogge-Stone scan (chapter "Prefix sum")
#include <stdio.h>
#include <stdlib.h>
#include <cuda.h>

#define SECTION_SIZE 512

__global__ void Kogge_Stone_scan_kernel(float *X, float *Y, unsigned int N) {
    __shared__ float XY[SECTION_SIZE];
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        XY[threadIdx.x] = X[i];
    } else {
        XY[threadIdx.x] = 0.0f;
    }
    for (unsigned int stride = 1; stride < blockDim.x; stride *= 2) {
        __syncthreads();
        float temp;
        if (threadIdx.x >= stride)
            temp = XY[threadIdx.x] + XY[threadIdx.x - stride];
        __syncthreads();
        if (threadIdx.x >= stride)
            XY[threadIdx.x] = temp;
    }
    if (i < N) {
        Y[i] = XY[threadIdx.x];
    }
}

void scan(float *X_h, float *Y_h, unsigned int N) {
    float *X_d, *Y_d;
    cudaMalloc((void **)&X_d, N * sizeof(float));
    cudaMalloc((void **)&Y_d, N * sizeof(float));
    cudaMemcpy(X_d, X_h, N * sizeof(float), cudaMemcpyHostToDevice);
    Kogge_Stone_scan_kernel<<<(N + SECTION_SIZE - 1) / SECTION_SIZE, SECTION_SIZE>>>(X_d, Y_d, N);
    cudaMemcpy(Y_h, Y_d, N * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(X_d);
    cudaFree(Y_d);
}

int main(int argc, char **argv) {
    unsigned int N = 1 << 20;
    float *X_h = (float *)malloc(N * sizeof(float));
    float *Y_h = (float *)malloc(N * sizeof(float));
    for (unsigned int i = 0; i < N; i++) X_h[i] = (float)(rand() % 10);
    scan(X_h, Y_h, N);
    printf("%.1f %.1f\n", Y_h[0], Y_h[SECTION_SIZE - 1]);
    free(X_h);
    free(Y_h);
    return 0;
}
