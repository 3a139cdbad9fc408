// Lab 5: layer normalisation in two steps (statistics, then normalise)
#include <iostream>
#include <vector>
#include <random>
#include <chrono>
#include <cassert>

constexpr int BATCH = 4096;
constexpr int FEATURES = 512;
constexpr float EPS = 1e-5f;

__global__ void compute_stats(const float* x, float* mean, float* rstd) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b < BATCH) {
        float m = 0.0f;
        for (int f = 0; f < FEATURES; ++f) m += x[b * FEATURES + f];
        m /= FEATURES;
        float v = 0.0f;
        for (int f = 0; f < FEATURES; ++f) {
            float d = x[b * FEATURES + f] - m;
            v += d * d;
        }
        mean[b] = m;
        rstd[b] = rsqrtf(v / FEATURES + EPS);
    }
}

__global__ void normalize(const float* x, const float* mean, const float* rstd,
                          const float* gamma, const float* beta, float* y) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < BATCH * FEATURES) {
        int b = idx / FEATURES;
        int f = idx % FEATURES;
        y[idx] = (x[idx] - mean[b]) * rstd[b] * gamma[f] + beta[f];
    }
}

void cpu_layernorm(const std::vector<float>& x, const std::vector<float>& g, const std::vector<float>& b, std::vector<float>& y) {
    for (int r = 0; r < BATCH; ++r) {
        double m = 0, v = 0;
        for (int f = 0; f < FEATURES; ++f) m += x[r * FEATURES + f];
        m /= FEATURES;
        for (int f = 0; f < FEATURES; ++f) v += (x[r * FEATURES + f] - m) * (x[r * FEATURES + f] - m);
        for (int f = 0; f < FEATURES; ++f)
            y[r * FEATURES + f] = (x[r * FEATURES + f] - m) / std::sqrt(v / FEATURES + EPS) * g[f] + b[f];
    }
}

int main() {
    std::vector<float> x(BATCH * FEATURES), gamma(FEATURES, 1.0f), beta(FEATURES, 0.0f), y(BATCH * FEATURES), ref(BATCH * FEATURES);
    std::mt19937 gen(0);
    std::normal_distribution<float> d;
    for (auto& v : x) v = d(gen);

    float *dx, *dmean, *drstd, *dgamma, *dbeta, *dy;
    cudaMalloc(&dx, x.size() * sizeof(float));
    cudaMalloc(&dmean, BATCH * sizeof(float));
    cudaMalloc(&drstd, BATCH * sizeof(float));
    cudaMalloc(&dgamma, FEATURES * sizeof(float));
    cudaMalloc(&dbeta, FEATURES * sizeof(float));
    cudaMalloc(&dy, y.size() * sizeof(float));
    cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dgamma, gamma.data(), FEATURES * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dbeta, beta.data(), FEATURES * sizeof(float), cudaMemcpyHostToDevice);

    auto t0 = std::chrono::high_resolution_clock::now();
    compute_stats<<<(BATCH + 255) / 256, 256>>>(dx, dmean, drstd);
    normalize<<<(BATCH * FEATURES + 255) / 256, 256>>>(dx, dmean, drstd, dgamma, dbeta, dy);
    cudaDeviceSynchronize();
    auto t1 = std::chrono::high_resolution_clock::now();
    std::cout << std::chrono::duration<double, std::milli>(t1 - t0).count() << " ms\n";

    cudaMemcpy(y.data(), dy, y.size() * sizeof(float), cudaMemcpyDeviceToHost);
    cpu_layernorm(x, gamma, beta, ref);
    for (size_t i = 0; i < y.size(); ++i) assert(std::abs(y[i] - ref[i]) < 1e-3f);
    std::cout << "OK\n";
    cudaFree(dx); cudaFree(dmean); cudaFree(drstd); cudaFree(dgamma); cudaFree(dbeta); cudaFree(dy);
    return 0;
}
