/*
Kernels for the fused classifier, after llm.c dev/cuda

Compile example:
nvcc -O3 --use_fast_math -lcublas -lcublasLt crossentropy_dev.cu -o crossentropy_dev

version 1 is one thread per row
./crossentropy_dev 1

version 2 is a warp per row, with online softmax
./crossentropy_dev 2
*/

#include <stdio.h>
#include <stdlib.h>
#include <float.h>
#include <cuda_runtime.h>
#include "common.h"

// ----------------------------------------------------------------------------
// CPU code reference

void crossentropy_forward_cpu(float* losses, const float* logits, const int* targets, int B, int T, int V) {
    for (int b = 0; b < B; b++) {
        for (int t = 0; t < T; t++) {
            const float* row = logits + b * T * V + t * V;
            float maxv = -INFINITY;
            for (int v = 0; v < V; v++) { if (row[v] > maxv) maxv = row[v]; }
            double sum = 0.0;
            for (int v = 0; v < V; v++) sum += exp(row[v] - maxv);
            losses[b * T + t] = -(row[targets[b * T + t]] - maxv - log(sum));
        }
    }
}

// ----------------------------------------------------------------------------
// GPU kernels

__global__ void crossentropy_forward_kernel1(float* losses, const float* logits, const int* targets, int B, int T, int V) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < B * T) {
        const float* row = logits + (size_t)i * V;
        float maxv = -FLT_MAX;
        for (int v = 0; v < V; v++) maxv = fmaxf(maxv, row[v]);
        float sum = 0.0f;
        for (int v = 0; v < V; v++) sum += expf(row[v] - maxv);
        losses[i] = logf(sum) + maxv - row[targets[i]];
    }
}

struct SoftmaxParams { float max; float sum; };

__device__ SoftmaxParams combine(SoftmaxParams a, SoftmaxParams b) {
    float m = fmaxf(a.max, b.max);
    return { m, a.sum * expf(a.max - m) + b.sum * expf(b.max - m) };
}

__global__ void crossentropy_forward_kernel2(float* losses, const float* logits, const int* targets, int B, int T, int V) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (warp >= B * T) return;
    const float* row = logits + (size_t)warp * V;
    SoftmaxParams p = {-FLT_MAX, 0.0f};
    for (int v = lane; v < V; v += 32) {
        p = combine(p, {row[v], 1.0f});
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        SoftmaxParams q;
        q.max = __shfl_xor_sync(0xffffffff, p.max, offset);
        q.sum = __shfl_xor_sync(0xffffffff, p.sum, offset);
        p = combine(p, q);
    }
    if (lane == 0) losses[warp] = logf(p.sum) + p.max - row[targets[warp]];
}

// ----------------------------------------------------------------------------
// kernel launchers

void crossentropy_forward1(float* losses, const float* logits, const int* targets, int B, int T, int V, const int block_size) {
    const int N = B * T;
    const int grid_size = ceil_div(N, block_size);
    crossentropy_forward_kernel1<<<grid_size, block_size>>>(losses, logits, targets, B, T, V);
    cudaCheck(cudaGetLastError());
}

void crossentropy_forward2(float* losses, const float* logits, const int* targets, int B, int T, int V, const int block_size) {
    const int grid_size = ceil_div(B * T * 32, block_size);
    crossentropy_forward_kernel2<<<grid_size, block_size>>>(losses, logits, targets, B, T, V);
    cudaCheck(cudaGetLastError());
}

void crossentropy_forward(int kernel_num, float* losses, const float* logits, const int* targets, int B, int T, int V, const int block_size) {
    switch (kernel_num) {
        case 1:
            crossentropy_forward1(losses, logits, targets, B, T, V, block_size);
            break;
        case 2:
            crossentropy_forward2(losses, logits, targets, B, T, V, block_size);
            break;
        default:
            printf("Invalid kernel number\n");
            exit(1);
    }
}

int main(int argc, char **argv) {
    setup_main();

    int B = 4;
    int T = 256;
    int V = 5000;

    float* out = (float*)malloc(B * T * sizeof(float));
    float* logits = make_random_float(B * T * V);
    int* targets = make_random_int(B * T, V);

    float* d_out;
    float* d_logits;
    int* d_targets;
    cudaCheck(cudaMalloc(&d_out, B * T * sizeof(float)));
    cudaCheck(cudaMalloc(&d_logits, B * T * V * sizeof(float)));
    cudaCheck(cudaMalloc(&d_targets, B * T * sizeof(int)));
    cudaCheck(cudaMemcpy(d_logits, logits, B * T * V * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_targets, targets, B * T * sizeof(int), cudaMemcpyHostToDevice));

    int kernel_num = 1;
    if (argc > 1) kernel_num = atoi(argv[1]);
    printf("Using kernel %d\n", kernel_num);

    crossentropy_forward_cpu(out, logits, targets, B, T, V);
    int block_sizes[] = {32, 64, 128, 256, 512, 1024};
    for (int j = 0; j < sizeof(block_sizes) / sizeof(int); j++) {
        int block_size = block_sizes[j];
        crossentropy_forward(kernel_num, d_out, d_logits, d_targets, B, T, V, block_size);
        validate_result(d_out, out, "losses", B * T, 1e-5f);
    }
    printf("All results match. Starting benchmarks.\n\n");
    for (int j = 0; j < sizeof(block_sizes) / sizeof(int); j++) {
        int block_size = block_sizes[j];
        int repeat_times = 100;
        float elapsed_time = benchmark_kernel(repeat_times, crossentropy_forward,
                                              kernel_num, d_out, d_logits, d_targets, B, T, V, block_size);
        printf("block_size %4d | time %f ms | per token %.2f ns\n", block_size, elapsed_time, elapsed_time * 1'000'000 / (B*T));
    }

    free(out);
    free(logits);
    free(targets);
    cudaCheck(cudaFree(d_out));
    cudaCheck(cudaFree(d_logits));
    cudaCheck(cudaFree(d_targets));
    return 0;
}
