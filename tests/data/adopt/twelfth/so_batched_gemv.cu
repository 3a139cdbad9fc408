// Question: cublasSgemv in a loop is slow for 2000 matrices of 96 x 96, so I wrote this. Can it be faster?
#include <stdio.h>
#include <stdlib.h>

const int BATCH = 2000;
const int M = 96;
const int N = 96;

__global__ void batchedMatVec(float *A, float *x, float *y)
{
    int b = blockIdx.x;
    int row = threadIdx.x;
    float acc = 0.0;
    for (int j = 0; j < N; j++)
        acc += A[b * M * N + row * N + j] * x[b * N + j];
    y[b * M + row] = acc;
}

void fill(float *p, int n) { for (int i = 0; i < n; i++) p[i] = drand48(); }

int main()
{
    float *hA, *hx, *hy, *dA, *dx, *dy;
    hA = (float*)malloc(sizeof(float) * BATCH * M * N);
    hx = (float*)malloc(sizeof(float) * BATCH * N);
    hy = (float*)malloc(sizeof(float) * BATCH * M);
    fill(hA, BATCH * M * N);
    fill(hx, BATCH * N);
    cudaMalloc((void**)&dA, sizeof(float) * BATCH * M * N);
    cudaMalloc((void**)&dx, sizeof(float) * BATCH * N);
    cudaMalloc((void**)&dy, sizeof(float) * BATCH * M);
    cudaMemcpy(dA, hA, sizeof(float) * BATCH * M * N, cudaMemcpyHostToDevice);
    cudaMemcpy(dx, hx, sizeof(float) * BATCH * N, cudaMemcpyHostToDevice);
    batchedMatVec<<<BATCH, M>>>(dA, dx, dy);
    cudaMemcpy(hy, dy, sizeof(float) * BATCH * M, cudaMemcpyDeviceToHost);
    printf("%f %f\n", hy[0], hy[BATCH * M - 1]);
    return 0;
}
