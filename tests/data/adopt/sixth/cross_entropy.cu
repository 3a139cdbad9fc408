/*
Kernels for the classifier loss: forward. The C style of small training codes.

Compile example:
nvcc -O3 --use_fast_math cross_entropy.cu -o cross_entropy
*/
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <float.h>
#include <cuda_runtime.h>

// ----------------------------------------------------------------------------
// utilities
template<class T>
__host__ __device__ T ceil_div(T dividend, T divisor) { return (dividend + divisor - 1) / divisor; }

void cuda_check(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))

float* make_random_float(size_t N) {
    float* arr = (float*)malloc(N * sizeof(float));
    for (size_t i = 0; i < N; i++) arr[i] = ((float)rand() / RAND_MAX) * 2.0 - 1.0;
    return arr;
}
int* make_random_int(size_t N, int V) {
    int* arr = (int*)malloc(N * sizeof(int));
    for (size_t i = 0; i < N; i++) arr[i] = rand() % V;
    return arr;
}

// ----------------------------------------------------------------------------
// CPU reference
void crossentropy_forward_cpu(float* losses, const float* logits, const int* targets, int B, int V) {
    for (int b = 0; b < B; b++) {
        const float* l = logits + b * V;
        float m = -INFINITY;
        for (int v = 0; v < V; v++) m = fmaxf(m, l[v]);
        double s = 0;
        for (int v = 0; v < V; v++) s += exp(l[v] - m);
        losses[b] = (float)(log(s) + m - l[targets[b]]);
    }
}

// ----------------------------------------------------------------------------
// kernels
__global__ void crossentropy_forward_kernel1(float* losses, bool* hit, const float* logits, const int* targets, int B, int V) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b < B) {
        const float* l = logits + b * V;
        float m = -INFINITY;
        int best = 0;
        for (int v = 0; v < V; v++) {
            if (l[v] > m) { m = l[v]; best = v; }
        }
        float s = 0.0f;
        for (int v = 0; v < V; v++) s += expf(l[v] - m);
        int t = targets[b];
        losses[b] = logf(s) + m - l[t];
        hit[b] = best == t;
    }
}

void crossentropy_forward1(float* losses, bool* hit, const float* logits, const int* targets, int B, int V, const int block_size) {
    const int grid_size = ceil_div(B, block_size);
    crossentropy_forward_kernel1<<<grid_size, block_size>>>(losses, hit, logits, targets, B, V);
    cudaCheck(cudaGetLastError());
}

int main(int argc, char **argv) {
    srand(0);
    int B = 1024;
    int V = 1000;
    float* out = (float*)malloc(B * sizeof(float));
    float* logits = make_random_float(B * V);
    int* targets = make_random_int(B, V);

    float* d_losses; bool* d_hit; float* d_logits; int* d_targets;
    cudaCheck(cudaMalloc(&d_losses, B * sizeof(float)));
    cudaCheck(cudaMalloc(&d_hit, B * sizeof(bool)));
    cudaCheck(cudaMalloc(&d_logits, B * V * sizeof(float)));
    cudaCheck(cudaMalloc(&d_targets, B * sizeof(int)));
    cudaCheck(cudaMemcpy(d_logits, logits, B * V * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_targets, targets, B * sizeof(int), cudaMemcpyHostToDevice));

    crossentropy_forward_cpu(out, logits, targets, B, V);
    int block_sizes[] = {32, 64, 128, 256};
    for (int j = 0; j < sizeof(block_sizes) / sizeof(int); j++) {
        int block_size = block_sizes[j];
        crossentropy_forward1(d_losses, d_hit, d_logits, d_targets, B, V, block_size);
    }
    free(out); free(logits); free(targets);
    cudaCheck(cudaFree(d_losses)); cudaCheck(cudaFree(d_hit));
    cudaCheck(cudaFree(d_logits)); cudaCheck(cudaFree(d_targets));
    return 0;
}
