// k-means: assignment and update with atomics (a thesis' repository)
#include <cstdlib>
#include <cfloat>
#include <cuda_runtime.h>
#include "helper_cuda.h"

static const int DIMS = 8;

__global__ void assign_points(const float* points, const float* centroids, int* labels, int n, int k)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= n) return;
    float best = FLT_MAX;
    int best_k = 0;
    for (int c = 0; c < k; ++c) {
        float d = 0.0f;
        for (int j = 0; j < DIMS; ++j) {
            float diff = points[i * DIMS + j] - centroids[c * DIMS + j];
            d += diff * diff;
        }
        if (d < best) { best = d; best_k = c; }
    }
    labels[i] = best_k;
}

__global__ void accumulate(const float* points, const int* labels, float* sums, int* counts, int n)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= n) return;
    int c = labels[i];
    for (int j = 0; j < DIMS; ++j) atomicAdd(&sums[c * DIMS + j], points[i * DIMS + j]);
    atomicAdd(&counts[c], 1);
}

struct KMeans {
    int n, k;
    float *d_points, *d_centroids, *d_sums;
    int *d_labels, *d_counts;
};

void kmeans_alloc(KMeans* km, int n, int k)
{
    km->n = n;
    km->k = k;
    checkCudaErrors(cudaMalloc(&km->d_points, n * DIMS * sizeof(float)));
    checkCudaErrors(cudaMalloc(&km->d_centroids, k * DIMS * sizeof(float)));
    checkCudaErrors(cudaMalloc(&km->d_sums, k * DIMS * sizeof(float)));
    checkCudaErrors(cudaMalloc(&km->d_labels, n * sizeof(int)));
    checkCudaErrors(cudaMalloc(&km->d_counts, k * sizeof(int)));
}

void kmeans_step(KMeans* km)
{
    const int threads = 256;
    const int blocks = (km->n + threads - 1) / threads;
    checkCudaErrors(cudaMemset(km->d_sums, 0, km->k * DIMS * sizeof(float)));
    checkCudaErrors(cudaMemset(km->d_counts, 0, km->k * sizeof(int)));
    assign_points<<<blocks, threads>>>(km->d_points, km->d_centroids, km->d_labels, km->n, km->k);
    accumulate<<<blocks, threads>>>(km->d_points, km->d_labels, km->d_sums, km->d_counts, km->n);
}

int main()
{
    KMeans km;
    const int n = 32768, k = 16;
    kmeans_alloc(&km, n, k);
    float* h_points = (float*)malloc(n * DIMS * sizeof(float));
    float* h_centroids = (float*)malloc(k * DIMS * sizeof(float));
    for (int i = 0; i < n * DIMS; ++i) h_points[i] = rand() / (float)RAND_MAX;
    for (int i = 0; i < k * DIMS; ++i) h_centroids[i] = h_points[i];
    checkCudaErrors(cudaMemcpy(km.d_points, h_points, n * DIMS * sizeof(float), cudaMemcpyHostToDevice));
    checkCudaErrors(cudaMemcpy(km.d_centroids, h_centroids, k * DIMS * sizeof(float), cudaMemcpyHostToDevice));
    kmeans_step(&km);
    int* labels = (int*)malloc(n * sizeof(int));
    float* sums = (float*)malloc(k * DIMS * sizeof(float));
    int* counts = (int*)malloc(k * sizeof(int));
    checkCudaErrors(cudaMemcpy(labels, km.d_labels, n * sizeof(int), cudaMemcpyDeviceToHost));
    checkCudaErrors(cudaMemcpy(sums, km.d_sums, k * DIMS * sizeof(float), cudaMemcpyDeviceToHost));
    checkCudaErrors(cudaMemcpy(counts, km.d_counts, k * sizeof(int), cudaMemcpyDeviceToHost));
    return 0;
}
