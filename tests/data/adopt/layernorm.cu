// LayerNorm forward, naive version: one thread per row. Compared with the CPU at the end.
#include <cstdio>
#include <cmath>
#include <cstdlib>
#include <vector>

constexpr float EPS = 1e-5f;

template <class T>
T ceil_div(T dividend, T divisor) { return (dividend + divisor - 1) / divisor; }

__global__ void layernorm_forward(float* out, float* mean, float* rstd, const float* inp, const float* weight,
                                  const float* bias, int N, int C, float eps) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N) return;
    const float* x = inp + idx * C;
    float m = 0.0f;
    for (int i = 0; i < C; i++) m += x[i];
    m = m / C;
    float v = 0.0f;
    for (int i = 0; i < C; i++) {
        float d = x[i] - m;
        v += d * d;
    }
    v = v / C;
    float s = 1.0f / sqrtf(v + eps);
    float* o = out + idx * C;
    for (int i = 0; i < C; i++) o[i] = s * (x[i] - m) * weight[i] + bias[i];
    mean[idx] = m;
    rstd[idx] = s;
}

int main(int argc, char** argv) {
    int B = 8, T = 1024, C = 768;
    int block_size = 256;
    if (argc > 1) block_size = atoi(argv[1]);
    const int N = B * T;
    std::vector<float> h_inp(N * C), h_w(C), h_b(C), h_out(N * C);
    for (auto& x : h_inp) x = 2.0f * rand() / RAND_MAX - 1.0f;
    for (auto& x : h_w) x = 2.0f * rand() / RAND_MAX - 1.0f;
    for (auto& x : h_b) x = 2.0f * rand() / RAND_MAX - 1.0f;
    float *d_out, *d_mean, *d_rstd, *d_inp, *d_weight, *d_bias;
    cudaMalloc(&d_out, B * T * C * sizeof(float));
    cudaMalloc(&d_mean, B * T * sizeof(float));
    cudaMalloc(&d_rstd, B * T * sizeof(float));
    cudaMalloc(&d_inp, B * T * C * sizeof(float));
    cudaMalloc(&d_weight, C * sizeof(float));
    cudaMalloc(&d_bias, C * sizeof(float));
    cudaMemcpy(d_inp, h_inp.data(), B * T * C * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_weight, h_w.data(), C * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_bias, h_b.data(), C * sizeof(float), cudaMemcpyHostToDevice);

    const int grid_size = ceil_div(N, block_size);
    layernorm_forward<<<grid_size, block_size>>>(d_out, d_mean, d_rstd, d_inp, d_weight, d_bias, N, C, EPS);
    cudaDeviceSynchronize();

    cudaMemcpy(h_out.data(), d_out, B * T * C * sizeof(float), cudaMemcpyDeviceToHost);
    std::vector<float> h_mean(N), h_rstd(N);
    cudaMemcpy(h_mean.data(), d_mean, N * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(h_rstd.data(), d_rstd, N * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%f %f\n", h_mean[0], h_rstd[0]);
    return 0;
}
