// Port of the fast_matmul example of a Numba course, for any size
#include <stdio.h>
#include <stdlib.h>

const int TPB = 16;

__global__ void fast_matmul(const float *A, const float *B, float *C, int n, int k, int m)
{
    __shared__ float sA[TPB][TPB];
    __shared__ float sB[TPB][TPB];
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int tx = threadIdx.x;
    int ty = threadIdx.y;
    int bpg = (k + TPB - 1) / TPB;
    float tmp = 0.f;
    for (int i = 0; i < bpg; i++) {
        sA[ty][tx] = 0;
        sB[ty][tx] = 0;
        if (y < n && (tx + i * TPB) < k)
            sA[ty][tx] = A[y * k + tx + i * TPB];
        if (x < m && (ty + i * TPB) < k)
            sB[ty][tx] = B[(ty + i * TPB) * m + x];
        __syncthreads();
        for (int j = 0; j < TPB; j++)
            tmp += sA[ty][j] * sB[j][tx];
        __syncthreads();
    }
    if (y < n && x < m)
        C[y * m + x] = tmp;
}

int main(int argc, char **argv)
{
    int n = 512, k = 512, m = 512;
    if (argc == 4) { n = atoi(argv[1]); k = atoi(argv[2]); m = atoi(argv[3]); }
    float *A, *B, *C;
    cudaMallocManaged(&A, n * k * sizeof(float));
    cudaMallocManaged(&B, k * m * sizeof(float));
    cudaMallocManaged(&C, n * m * sizeof(float));
    for (int i = 0; i < n * k; i++) A[i] = rand() / (float)RAND_MAX;
    for (int i = 0; i < k * m; i++) B[i] = rand() / (float)RAND_MAX;
    dim3 threadsperblock(TPB, TPB);
    int blockspergrid_x = (m + threadsperblock.x - 1) / threadsperblock.x;
    int blockspergrid_y = (n + threadsperblock.y - 1) / threadsperblock.y;
    dim3 blockspergrid(blockspergrid_x, blockspergrid_y);
    fast_matmul<<<blockspergrid, threadsperblock>>>(A, B, C, n, k, m);
    cudaError_t err = cudaDeviceSynchronize();
    if (err != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(err)); return 1; }
    printf("C[0] = %f\n", C[0]);
    cudaFree(A); cudaFree(B); cudaFree(C);
}
