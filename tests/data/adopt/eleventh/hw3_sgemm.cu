// CS 475 - Homework 3: rectangular matrix multiply with shared memory
// usage: ./hw3 [M N K]
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cuda_runtime.h>

static void HandleError(cudaError_t err, const char *file, int line) {
    if (err != cudaSuccess) {
        printf("%s in %s at line %d\n", cudaGetErrorString(err), file, line);
        exit(EXIT_FAILURE);
    }
}
#define HANDLE_ERROR(err) (HandleError(err, __FILE__, __LINE__))

template <int TW>
__global__ void matMulShared(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float As[TW][TW];
    __shared__ float Bs[TW][TW];
    int row = blockIdx.y * TW + threadIdx.y;
    int col = blockIdx.x * TW + threadIdx.x;
    float acc = 0;
    for (int t = 0; t < (K + TW - 1) / TW; t++) {
        if (row < M && t * TW + threadIdx.x < K)
            As[threadIdx.y][threadIdx.x] = A[row * K + t * TW + threadIdx.x];
        else
            As[threadIdx.y][threadIdx.x] = 0.0;
        if (col < N && t * TW + threadIdx.y < K)
            Bs[threadIdx.y][threadIdx.x] = B[(t * TW + threadIdx.y) * N + col];
        else
            Bs[threadIdx.y][threadIdx.x] = 0.0;
        __syncthreads();
        for (int i = 0; i < TW; i++)
            acc += As[threadIdx.y][i] * Bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}

void matMulCPU(const float *A, const float *B, float *C, int M, int N, int K) {
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float s = 0;
            for (int k = 0; k < K; k++) s += A[i * K + k] * B[k * N + j];
            C[i * N + j] = s;
        }
}

void randomInit(float *data, int size) {
    for (int i = 0; i < size; ++i)
        data[i] = rand() / (float)RAND_MAX;
}

int main(int argc, char **argv) {
    int M = 640, N = 800, K = 500;
    if (argc > 3) {
        M = atoi(argv[1]);
        N = atoi(argv[2]);
        K = atoi(argv[3]);
    }
    size_t sizeA = M * K * sizeof(float), sizeB = K * N * sizeof(float), sizeC = M * N * sizeof(float);
    float *h_A = (float *)malloc(sizeA);
    float *h_B = (float *)malloc(sizeB);
    float *h_C = (float *)malloc(sizeC);
    float *h_ref = (float *)malloc(sizeC);
    srand(2024);
    randomInit(h_A, M * K);
    randomInit(h_B, K * N);

    float *d_A, *d_B, *d_C;
    HANDLE_ERROR(cudaMalloc((void **)&d_A, sizeA));
    HANDLE_ERROR(cudaMalloc((void **)&d_B, sizeB));
    HANDLE_ERROR(cudaMalloc((void **)&d_C, sizeC));
    HANDLE_ERROR(cudaMemcpy(d_A, h_A, sizeA, cudaMemcpyHostToDevice));
    HANDLE_ERROR(cudaMemcpy(d_B, h_B, sizeB, cudaMemcpyHostToDevice));

    const int TW = 16;
    dim3 threads(TW, TW);
    dim3 grid((N - 1) / TW + 1, (M - 1) / TW + 1);

    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    cudaEventRecord(start);
    matMulShared<TW><<<grid, threads>>>(d_A, d_B, d_C, M, N, K);
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    float ms = 0;
    cudaEventElapsedTime(&ms, start, stop);
    printf("GPU: %f ms, %.1f GFLOP/s\n", ms, 2.0 * M * N * K / ms / 1e6);

    HANDLE_ERROR(cudaMemcpy(h_C, d_C, sizeC, cudaMemcpyDeviceToHost));
    matMulCPU(h_A, h_B, h_ref, M, N, K);
    double worst = 0;
    for (int i = 0; i < M * N; i++) worst = fmax(worst, fabs(h_C[i] - h_ref[i]));
    printf("max error %g\n", worst);
    cudaFree(d_A); cudaFree(d_B); cudaFree(d_C);
    free(h_A); free(h_B); free(h_C); free(h_ref);
    return 0;
}
