/*
Kernels for the layernorm backward pass.
nvcc -O3 layernorm_backward.cu -o layernorm_backward
./layernorm_backward 1
*/
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <assert.h>
#include <cuda_runtime.h>

#define ceil_div(a, b) (((a) + (b) - 1) / (b))
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))
void cuda_check(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}

// CPU reference
void layernorm_backward_cpu(float* dinp, const float* dout, const float* inp, const float* weight,
                            const float* mean, const float* rstd, int N, int C) {
    for (int i = 0; i < N; i++) {
        const float* dout_i = dout + i * C;
        const float* inp_i = inp + i * C;
        float dnorm_mean = 0.0f, dnorm_norm_mean = 0.0f;
        for (int c = 0; c < C; c++) {
            float norm = (inp_i[c] - mean[i]) * rstd[i];
            float dnorm = weight[c] * dout_i[c];
            dnorm_mean += dnorm;
            dnorm_norm_mean += dnorm * norm;
        }
        dnorm_mean /= C;
        dnorm_norm_mean /= C;
        for (int c = 0; c < C; c++) {
            float norm = (inp_i[c] - mean[i]) * rstd[i];
            dinp[i * C + c] = (weight[c] * dout_i[c] - dnorm_mean - norm * dnorm_norm_mean) * rstd[i];
        }
    }
}

// one thread for each row
__global__ void layernorm_backward_kernel1(float* dinp, const float* dout, const float* inp, const float* weight,
                                           const float* mean, const float* rstd, int N, int C) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N) return;
    const float* dout_i = dout + idx * C;
    const float* inp_i = inp + idx * C;
    float m = mean[idx];
    float s = rstd[idx];
    float dnorm_mean = 0.0f;
    float dnorm_norm_mean = 0.0f;
    for (int c = 0; c < C; c++) {
        float norm = (inp_i[c] - m) * s;
        float dnorm = weight[c] * dout_i[c];
        dnorm_mean += dnorm;
        dnorm_norm_mean += dnorm * norm;
    }
    dnorm_mean = dnorm_mean / C;
    dnorm_norm_mean = dnorm_norm_mean / C;
    for (int c = 0; c < C; c++) {
        float norm = (inp_i[c] - m) * s;
        float dnorm = weight[c] * dout_i[c];
        dinp[idx * C + c] = (dnorm - dnorm_mean - norm * dnorm_norm_mean) * s;
    }
}

void layernorm_backward1(float* dinp, const float* dout, const float* inp, const float* weight, const float* mean,
                         const float* rstd, int N, int C, const int block_size) {
    const int grid_size = ceil_div(N, block_size);
    layernorm_backward_kernel1<<<grid_size, block_size>>>(dinp, dout, inp, weight, mean, rstd, N, C);
    cudaCheck(cudaGetLastError());
}

// kernel version dispatch
void layernorm_backward(int kernel_num, float* dinp, const float* dout, const float* inp, const float* weight,
                        const float* mean, const float* rstd, int N, int C, const int block_size) {
    switch (kernel_num) {
        case 1:
            layernorm_backward1(dinp, dout, inp, weight, mean, rstd, N, C, block_size);
            break;
        default:
            printf("Invalid kernel number\n");
            exit(1);
    }
}

float* make_random_float(size_t n) {
    float* arr = (float*)malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++) arr[i] = ((float)rand() / RAND_MAX) * 2.0 - 1.0;
    return arr;
}

int main(int argc, char** argv) {
    srand(0);
    int B = 8;
    int T = 256;
    int C = 768;
    int deviceIdx = 0;
    cudaCheck(cudaSetDevice(deviceIdx));

    float* dout = make_random_float(B * T * C);
    float* inp = make_random_float(B * T * C);
    float* weight = make_random_float(C);
    float* mean = make_random_float(B * T);
    float* rstd = make_random_float(B * T);
    float* dinp = (float*)malloc(B * T * C * sizeof(float));

    float *d_dinp, *d_dout, *d_inp, *d_weight, *d_mean, *d_rstd;
    cudaCheck(cudaMalloc(&d_dinp, B * T * C * sizeof(float)));
    cudaCheck(cudaMalloc(&d_dout, B * T * C * sizeof(float)));
    cudaCheck(cudaMalloc(&d_inp, B * T * C * sizeof(float)));
    cudaCheck(cudaMalloc(&d_weight, C * sizeof(float)));
    cudaCheck(cudaMalloc(&d_mean, B * T * sizeof(float)));
    cudaCheck(cudaMalloc(&d_rstd, B * T * sizeof(float)));
    cudaCheck(cudaMemcpy(d_dout, dout, B * T * C * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_inp, inp, B * T * C * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_weight, weight, C * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_mean, mean, B * T * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_rstd, rstd, B * T * sizeof(float), cudaMemcpyHostToDevice));

    int kernel_num = 1;
    if (argc > 1) kernel_num = atoi(argv[1]);
    printf("Using kernel %d\n", kernel_num);

    int block_sizes[] = {32, 64, 128, 256, 512, 1024};
    for (int j = 0; j < sizeof(block_sizes) / sizeof(int); j++) {
        int block_size = block_sizes[j];
        layernorm_backward(kernel_num, d_dinp, d_dout, d_inp, d_weight, d_mean, d_rstd, B * T, C, block_size);
    }
    layernorm_backward_cpu(dinp, dout, inp, weight, mean, rstd, B * T, C);
    float* out = (float*)malloc(B * T * C * sizeof(float));
    cudaCheck(cudaMemcpy(out, d_dinp, B * T * C * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < B * T * C; i++) assert(fabs(out[i] - dinp[i]) < 1e-3f);
    printf("Results match\n");
    return 0;
}
