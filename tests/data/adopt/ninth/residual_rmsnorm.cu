/*
Kernels for the residual + rmsnorm forward pass, llm.c style.

Compile example:
nvcc -O3 --use_fast_math -lcublas residual_rmsnorm.cu -o residual_rmsnorm
./residual_rmsnorm 1
*/
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <float.h>
#include <assert.h>
#include <cuda_runtime.h>

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
#define WARP_SIZE 32

void cuda_check(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))

float* make_random_float(size_t N) {
    float* arr = (float*)malloc(N * sizeof(float));
    for (size_t i = 0; i < N; i++) {
        arr[i] = ((float)rand() / RAND_MAX) * 2.0 - 1.0;
    }
    return arr;
}

float* make_zeros_float(size_t N) {
    float* arr = (float*)malloc(N * sizeof(float));
    memset(arr, 0, N * sizeof(float));
    return arr;
}

// ----------------------------------------------------------------------------
// CPU code reference

void residual_rmsnorm_forward_cpu(float* residual, float* out, float* rstd,
                                  const float* inp1, const float* inp2, const float* weight,
                                  int N, int C) {
    for (int n = 0; n < N; n++) {
        float v = 0.0f;
        for (int c = 0; c < C; c++) {
            float x = inp1[n * C + c] + inp2[n * C + c];
            residual[n * C + c] = x;
            v += x * x;
        }
        float s = 1.0f / sqrtf(v / C + 1e-5f);
        rstd[n] = s;
        for (int c = 0; c < C; c++) {
            out[n * C + c] = residual[n * C + c] * s * weight[c];
        }
    }
}

// ----------------------------------------------------------------------------
// GPU kernels

__device__ float warpReduceSum(float val) {
    for (int offset = 16; offset > 0; offset /= 2) {
        val += __shfl_xor_sync(0xFFFFFFFF, val, offset);
    }
    return val;
}

// one warp per row
__global__ void residual_rmsnorm_forward_kernel1(float* __restrict__ residual, float* __restrict__ out,
                                                 float* __restrict__ rstd,
                                                 const float* __restrict__ inp1, const float* __restrict__ inp2,
                                                 const float* __restrict__ weight, int N, int C) {
    int num_warps = blockDim.x / WARP_SIZE;
    int warp_id = threadIdx.x / WARP_SIZE;
    int lane_id = threadIdx.x % WARP_SIZE;
    int idx = blockIdx.x * num_warps + warp_id;
    if (idx >= N) { return; }

    inp1 += idx * C;
    inp2 += idx * C;
    residual += idx * C;
    out += idx * C;

    float acc = 0.0f;
    for (int c = lane_id; c < C; c += WARP_SIZE) {
        float x = inp1[c] + inp2[c];
        residual[c] = x;
        acc += x * x;
    }
    acc = warpReduceSum(acc);
    float s = rsqrtf(acc / C + 1e-5f);
    if (lane_id == 0) { rstd[idx] = s; }
    for (int c = lane_id; c < C; c += WARP_SIZE) {
        out[c] = residual[c] * s * weight[c];
    }
}

// ----------------------------------------------------------------------------
// kernel launcher

void residual_rmsnorm_forward1(float* residual, float* out, float* rstd,
                               const float* inp1, const float* inp2, const float* weight,
                               int N, int C, const int block_size) {
    const int grid_size = CEIL_DIV(N * WARP_SIZE, block_size);
    residual_rmsnorm_forward_kernel1<<<grid_size, block_size>>>(residual, out, rstd, inp1, inp2, weight, N, C);
    cudaCheck(cudaGetLastError());
}

void residual_rmsnorm_forward(int kernel_num, float* residual, float* out, float* rstd,
                              const float* inp1, const float* inp2, const float* weight,
                              int N, int C, const int block_size) {
    switch (kernel_num) {
        case 1:
            residual_rmsnorm_forward1(residual, out, rstd, inp1, inp2, weight, N, C, block_size);
            break;
        default:
            printf("Invalid kernel number\n");
            exit(1);
    }
}

int main(int argc, char **argv) {
    srand(0);

    int B = 8;
    int T = 1024;
    int C = 768;

    float* inp1 = make_random_float(B * T * C);
    float* inp2 = make_random_float(B * T * C);
    float* weight = make_random_float(C);
    float* residual = make_zeros_float(B * T * C);
    float* out = make_zeros_float(B * T * C);
    float* rstd = make_zeros_float(B * T);

    float *d_inp1, *d_inp2, *d_weight, *d_residual, *d_out, *d_rstd;
    cudaCheck(cudaMalloc(&d_inp1, B * T * C * sizeof(float)));
    cudaCheck(cudaMalloc(&d_inp2, B * T * C * sizeof(float)));
    cudaCheck(cudaMalloc(&d_weight, C * sizeof(float)));
    cudaCheck(cudaMalloc(&d_residual, B * T * C * sizeof(float)));
    cudaCheck(cudaMalloc(&d_out, B * T * C * sizeof(float)));
    cudaCheck(cudaMalloc(&d_rstd, B * T * sizeof(float)));
    cudaCheck(cudaMemcpy(d_inp1, inp1, B * T * C * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_inp2, inp2, B * T * C * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_weight, weight, C * sizeof(float), cudaMemcpyHostToDevice));

    int kernel_num = 1;
    if (argc > 1) {
        kernel_num = atoi(argv[1]);
    }
    printf("Using kernel %d\n", kernel_num);

    residual_rmsnorm_forward_cpu(residual, out, rstd, inp1, inp2, weight, B * T, C);

    int block_sizes[] = {32, 64, 128, 256, 512, 1024};
    for (int j = 0; j < sizeof(block_sizes) / sizeof(int); j++) {
        int block_size = block_sizes[j];
        residual_rmsnorm_forward(kernel_num, d_residual, d_out, d_rstd, d_inp1, d_inp2, d_weight, B * T, C, block_size);
        float* got = (float*)malloc(B * T * C * sizeof(float));
        cudaCheck(cudaMemcpy(got, d_out, B * T * C * sizeof(float), cudaMemcpyDeviceToHost));
        for (int i = 0; i < B * T * C; i++) {
            if (fabsf(got[i] - out[i]) > 1e-4f) { printf("Mismatch at %d\n", i); exit(1); }
        }
        free(got);
    }
    free(inp1); free(inp2); free(weight); free(residual); free(out); free(rstd);
    cudaFree(d_inp1); cudaFree(d_inp2); cudaFree(d_weight); cudaFree(d_residual); cudaFree(d_out); cudaFree(d_rstd);
    return 0;
}
