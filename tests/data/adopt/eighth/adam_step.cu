/* One step of AdamW on flat parameters, after the training code of a small language model in C/CUDA. */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

#define cudaCheck(err) do { if ((err) != cudaSuccess) { printf("error\n"); exit(1); } } while (0)

__device__ inline float lerp_(float start, float end, float weight) { return fma(weight, end, fma(-weight, start, start)); }

__global__ void adamw_kernel(float *params_memory, const float *grads_memory, float *m_memory, float *v_memory,
                             size_t num_parameters, float learning_rate, float beta1, float beta2,
                             float beta1_correction, float beta2_correction, float eps, float weight_decay) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num_parameters) return;
    float grad = grads_memory[i];
    float m = m_memory[i];
    float v = v_memory[i];
    m = lerp_(grad, m, beta1);
    m_memory[i] = m;
    v = lerp_(grad * grad, v, beta2);
    v_memory[i] = v;
    m /= beta1_correction;
    v /= beta2_correction;
    params_memory[i] -= learning_rate * (m / (sqrtf(v) + eps) + weight_decay * params_memory[i]);
}

void adamw(float *params, const float *grads, float *m, float *v, int t, size_t n, float lr, float beta1, float beta2,
           float eps, float wd) {
    int block_size = 512;
    int num_blocks = (n + block_size - 1) / block_size;
    float c1 = 1.0f - powf(beta1, t);
    float c2 = 1.0f - powf(beta2, t);
    adamw_kernel<<<num_blocks, block_size>>>(params, grads, m, v, n, lr, beta1, beta2, c1, c2, eps, wd);
    cudaCheck(cudaGetLastError());
}

int main() {
    const size_t n = 1 << 20;
    float *params, *grads, *m, *v;
    float *host = (float *)malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++) host[i] = ((float)rand() / RAND_MAX) * 2.0f - 1.0f;
    cudaCheck(cudaMalloc((void **)&params, n * sizeof(float)));
    cudaCheck(cudaMalloc((void **)&grads, n * sizeof(float)));
    cudaCheck(cudaMalloc((void **)&m, n * sizeof(float)));
    cudaCheck(cudaMalloc((void **)&v, n * sizeof(float)));
    cudaCheck(cudaMemcpy(params, host, n * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(grads, host, n * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemset(m, 0, n * sizeof(float)));
    cudaCheck(cudaMemset(v, 0, n * sizeof(float)));
    adamw(params, grads, m, v, 10, n, 1e-3f, 0.9f, 0.999f, 1e-8f, 0.01f);
    cudaCheck(cudaMemcpy(host, params, n * sizeof(float), cudaMemcpyDeviceToHost));
    printf("%f\n", host[0]);
    return 0;
}
