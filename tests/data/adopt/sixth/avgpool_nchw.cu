#include <iostream>
#include <cuda_runtime.h>

struct PoolShape {
    int n, c, h, w;
    int out_h() const { return h / 2; }
    int out_w() const { return w / 2; }
    size_t in_size() const { return (size_t)n * c * h * w; }
    size_t out_size() const { return (size_t)n * c * out_h() * out_w(); }
};

template <int K>
__global__ void avg_pool(const float* in, float* out, int planes, int h, int w) {
    int oh = h / K, ow = w / K;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= planes * oh * ow) return;
    int x = idx % ow;
    int y = (idx / ow) % oh;
    int p = idx / (ow * oh);
    float sum = 0;
    for (int i = 0; i < K; i++)
        for (int j = 0; j < K; j++)
            sum += in[(p * h + y * K + i) * w + x * K + j];
    out[idx] = sum / (K * K);
}

int main() {
    PoolShape s{4, 16, 64, 64};
    float* d_in;
    float* d_out;
    cudaMalloc((void**)&d_in, s.in_size() * sizeof(float));
    cudaMalloc((void**)&d_out, s.out_size() * sizeof(float));
    float* h_in = new float[s.in_size()];
    for (size_t i = 0; i < s.in_size(); i++) h_in[i] = i % 10;
    cudaMemcpy(d_in, h_in, s.in_size() * sizeof(float), cudaMemcpyHostToDevice);

    int threads = 64;
    int total = s.n * s.c * s.out_h() * s.out_w();
    avg_pool<2><<<(total + threads - 1) / threads, threads>>>(d_in, d_out, s.n * s.c, s.h, s.w);

    float* h_out = new float[s.out_size()];
    cudaMemcpy(h_out, d_out, s.out_size() * sizeof(float), cudaMemcpyDeviceToHost);
    std::cout << h_out[0] << std::endl;
    delete[] h_in;
    delete[] h_out;
    return 0;
}
