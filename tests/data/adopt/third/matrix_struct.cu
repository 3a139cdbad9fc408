// Assignment 2: matrix product with a Matrix type, as in the programming guide. ./mm [rows] [inner] [cols]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_SIZE 16
#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true) {
    if (code != cudaSuccess) {
        fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
        if (abort) exit(code);
    }
}

typedef struct {
    int width;
    int height;
    float* elements;
} Matrix;

__global__ void MatMulKernel(const Matrix A, const Matrix B, Matrix C) {
    float Cvalue = 0;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= C.height || col >= C.width) return;
    for (int e = 0; e < A.width; ++e)
        Cvalue += A.elements[row * A.width + e] * B.elements[e * B.width + col];
    C.elements[row * C.width + col] = Cvalue;
}

static dim3 gridFor(const Matrix C, dim3 block) {
    dim3 grid;
    grid.x = (C.width + block.x - 1) / block.x;
    grid.y = (C.height + block.y - 1) / block.y;
    grid.z = 1;
    return grid;
}

void MatMul(const Matrix A, const Matrix B, Matrix C) {
    Matrix d_A;
    d_A.width = A.width; d_A.height = A.height;
    size_t size = A.width * A.height * sizeof(float);
    gpuErrchk(cudaMalloc(&d_A.elements, size));
    gpuErrchk(cudaMemcpy(d_A.elements, A.elements, size, cudaMemcpyHostToDevice));
    Matrix d_B;
    d_B.width = B.width; d_B.height = B.height;
    size = B.width * B.height * sizeof(float);
    gpuErrchk(cudaMalloc(&d_B.elements, size));
    gpuErrchk(cudaMemcpy(d_B.elements, B.elements, size, cudaMemcpyHostToDevice));

    Matrix d_C;
    d_C.width = C.width; d_C.height = C.height;
    size = C.width * C.height * sizeof(float);
    gpuErrchk(cudaMalloc(&d_C.elements, size));

    dim3 dimBlock(BLOCK_SIZE, BLOCK_SIZE);
    dim3 dimGrid = gridFor(C, dimBlock);
    MatMulKernel<<<dimGrid, dimBlock>>>(d_A, d_B, d_C);
    gpuErrchk(cudaPeekAtLastError());
    gpuErrchk(cudaDeviceSynchronize());

    gpuErrchk(cudaMemcpy(C.elements, d_C.elements, size, cudaMemcpyDeviceToHost));
    cudaFree(d_A.elements);
    cudaFree(d_B.elements);
    cudaFree(d_C.elements);
}

Matrix newMatrix(int height, int width) {
    Matrix m;
    m.width = width;
    m.height = height;
    m.elements = (float*)malloc(width * height * sizeof(float));
    return m;
}

int main(int argc, char* argv[]) {
    int a1 = argc > 1 ? atoi(argv[1]) : 512;
    int a2 = argc > 2 ? atoi(argv[2]) : 256;
    int b2 = argc > 3 ? atoi(argv[3]) : 384;

    Matrix A = newMatrix(a1, a2);
    Matrix B = newMatrix(a2, b2);
    Matrix C = newMatrix(a1, b2);

    for (int i = 0; i < A.height; i++)
        for (int j = 0; j < A.width; j++)
            A.elements[i * A.width + j] = (float)(rand() % 3);
    for (int i = 0; i < B.height; i++)
        for (int j = 0; j < B.width; j++)
            B.elements[i * B.width + j] = (float)(rand() % 2);

    MatMul(A, B, C);

    for (int i = 0; i < (10 < C.height ? 10 : C.height); i++) {
        for (int j = 0; j < (10 < C.width ? 10 : C.width); j++)
            printf("%f ", C.elements[i * C.width + j]);
        printf("\n");
    }
    return 0;
}
