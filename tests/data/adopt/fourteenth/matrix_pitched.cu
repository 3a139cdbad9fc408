// A^T * B with matrices in pitched memory, passed by value as in the programming guide.
#include <cstdio>
#include <cstdlib>
#include <cassert>

typedef struct {
    int width;
    int height;
    size_t pitch;   // bytes
    float* elements;
} Matrix;

__device__ float get(const Matrix A, int row, int col)
{
    return ((const float*)((const char*)A.elements + row * A.pitch))[col];
}

__device__ void put(Matrix A, int row, int col, float value)
{
    float* p = (float*)((char*)A.elements + row * A.pitch);
    p[col] = value;
}

// C = A^T * B
__global__ void MatTMulKernel(Matrix A, Matrix B, Matrix C)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= C.height || col >= C.width) return;
    float Cvalue = 0;
    for (int e = 0; e < A.height; ++e)
        Cvalue += get(A, e, row) * get(B, e, col);
    put(C, row, col, Cvalue);
}

Matrix to_device(const float* host, int height, int width)
{
    Matrix m;
    m.width = width;
    m.height = height;
    cudaMallocPitch((void**)&m.elements, &m.pitch, width * sizeof(float), height);
    if (host)
        cudaMemcpy2D(m.elements, m.pitch, host, width * sizeof(float), width * sizeof(float), height, cudaMemcpyHostToDevice);
    return m;
}

void MatTMul(const float* A, const float* B, float* C, int k, int m, int n)
{
    Matrix d_A = to_device(A, k, m);
    Matrix d_B = to_device(B, k, n);
    Matrix d_C = to_device(NULL, m, n);
    dim3 dimBlock(16, 16);
    dim3 dimGrid((n + dimBlock.x - 1) / dimBlock.x, (m + dimBlock.y - 1) / dimBlock.y);
    MatTMulKernel<<<dimGrid, dimBlock>>>(d_A, d_B, d_C);
    cudaMemcpy2D(C, n * sizeof(float), d_C.elements, d_C.pitch, n * sizeof(float), m, cudaMemcpyDeviceToHost);
    cudaFree(d_A.elements);
    cudaFree(d_B.elements);
    cudaFree(d_C.elements);
}

int main()
{
    const int k = 512, m = 384, n = 640;
    float* A = (float*)malloc(k * m * sizeof(float));
    float* B = (float*)malloc(k * n * sizeof(float));
    float* C = (float*)malloc(m * n * sizeof(float));
    for (int i = 0; i < k * m; i++) A[i] = rand() % 3;
    for (int i = 0; i < k * n; i++) B[i] = rand() % 2;
    MatTMul(A, B, C, k, m, n);
    printf("C[0] = %f\n", C[0]);
    free(A); free(B); free(C);
    return 0;
}
