/* Sparse matrix-vector multiplication in ELL format.
   Programming exercise 14.2; the padded entries have value 0 and column 0. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned int uint;

typedef struct {
    uint numRows;
    uint numCols;
    uint maxNNZ;
    uint *colIdx;
    float *value;
} ELLMatrix;

__global__ void spmv_ell_kernel(ELLMatrix ell, float *x, float *y) {
    uint row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < ell.numRows) {
        float sum = 0.0f;
        for (uint t = 0; t < ell.maxNNZ; ++t) {
            uint i = row * ell.maxNNZ + t;
            sum += x[ell.colIdx[i]] * ell.value[i];
        }
        y[row] = sum;
    }
}

int main(int argc, char **argv) {
    ELLMatrix h, d;
    h.numRows = d.numRows = 4096;
    h.numCols = d.numCols = 4096;
    h.maxNNZ = d.maxNNZ = 64;
    uint total = h.numRows * h.maxNNZ;

    h.colIdx = (uint *)malloc(total * sizeof(uint));
    h.value = (float *)malloc(total * sizeof(float));
    float *x = (float *)malloc(h.numCols * sizeof(float));
    float *y = (float *)malloc(h.numRows * sizeof(float));
    for (uint i = 0; i < total; ++i) {
        h.colIdx[i] = rand() % h.numCols;
        h.value[i] = rand() / (float)RAND_MAX;
    }
    for (uint i = 0; i < h.numCols; ++i) x[i] = 1.0f;

    float *x_d, *y_d;
    cudaMalloc((void **)&d.colIdx, total * sizeof(uint));
    cudaMalloc((void **)&d.value, total * sizeof(float));
    cudaMalloc((void **)&x_d, d.numCols * sizeof(float));
    cudaMalloc((void **)&y_d, d.numRows * sizeof(float));
    cudaMemcpy(d.colIdx, h.colIdx, total * sizeof(uint), cudaMemcpyHostToDevice);
    cudaMemcpy(d.value, h.value, total * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(x_d, x, d.numCols * sizeof(float), cudaMemcpyHostToDevice);

    uint numThreadsPerBlock = 256;
    uint numBlocks = (d.numRows + numThreadsPerBlock - 1) / numThreadsPerBlock;
    spmv_ell_kernel<<<numBlocks, numThreadsPerBlock>>>(d, x_d, y_d);

    cudaMemcpy(y, y_d, d.numRows * sizeof(float), cudaMemcpyDeviceToHost);
    printf("y[0] = %f\n", y[0]);
    cudaFree(d.colIdx);
    cudaFree(d.value);
    cudaFree(x_d);
    cudaFree(y_d);
    return 0;
}
