%%writefile knn.cu
// distances of test points to training points, and the nearest label (k = 1), digits data set
#include <stdio.h>
#include <stdlib.h>
#include <float.h>

#define N_TRAIN 2048
#define N_TEST  512
#define DIM     64

__global__ void distances(float *train, float *test, float *dist, int n_train, int n_test, int dim) {
    int t = blockIdx.y * blockDim.y + threadIdx.y;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n_test && i < n_train) {
        float d = 0.0f;
        for (int k = 0; k < dim; k++) {
            float diff = test[t * dim + k] - train[i * dim + k];
            d += diff * diff;
        }
        dist[t * n_train + i] = d;
    }
}

__global__ void nearest(float *dist, int *labels, int *out, int n_train, int n_test) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n_test) return;
    float best = FLT_MAX;
    int arg = 0;
    for (int i = 0; i < n_train; i++) {
        if (dist[t * n_train + i] < best) { best = dist[t * n_train + i]; arg = i; }
    }
    out[t] = labels[arg];
}

int main(void) {
    float *train = (float*)malloc(N_TRAIN * DIM * sizeof(float));
    float *test  = (float*)malloc(N_TEST * DIM * sizeof(float));
    int *labels = (int*)malloc(N_TRAIN * sizeof(int));
    int *pred   = (int*)malloc(N_TEST * sizeof(int));
    for (int i = 0; i < N_TRAIN * DIM; i++) train[i] = rand() / (float)RAND_MAX;
    for (int i = 0; i < N_TEST * DIM; i++) test[i] = rand() / (float)RAND_MAX;
    for (int i = 0; i < N_TRAIN; i++) labels[i] = rand() % 10;

    float *d_train, *d_test, *d_dist; int *d_labels, *d_pred;
    cudaMalloc(&d_train, N_TRAIN * DIM * sizeof(float));
    cudaMalloc(&d_test, N_TEST * DIM * sizeof(float));
    cudaMalloc(&d_dist, N_TEST * N_TRAIN * sizeof(float));
    cudaMalloc(&d_labels, N_TRAIN * sizeof(int));
    cudaMalloc(&d_pred, N_TEST * sizeof(int));
    cudaMemcpy(d_train, train, N_TRAIN * DIM * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_test, test, N_TEST * DIM * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_labels, labels, N_TRAIN * sizeof(int), cudaMemcpyHostToDevice);

    dim3 threads(16, 16);
    dim3 blocks((N_TRAIN + 15) / 16, (N_TEST + 15) / 16);
    distances<<<blocks, threads>>>(d_train, d_test, d_dist, N_TRAIN, N_TEST, DIM);
    nearest<<<(N_TEST + 63) / 64, 64>>>(d_dist, d_labels, d_pred, N_TRAIN, N_TEST);
    cudaMemcpy(pred, d_pred, N_TEST * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < 10; i++) printf("%d ", pred[i]);
    printf("\n");
    return 0;
}
