// Separable-free image filter; everything the kernel needs in one struct passed by value.
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(x) if ((x) != cudaSuccess) { printf("CUDA error at line %d\n", __LINE__); return 1; }
#define RADIUS 2

struct FilterParams {
    const float* src;
    float* dst;
    int size[2];                       // width, height
    float weights[2 * RADIUS + 1][2 * RADIUS + 1];
    float gain;
};

__global__ void filter(FilterParams p) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= p.size[0] || y >= p.size[1]) return;
    float acc = 0.0f;
    for (int dy = -RADIUS; dy <= RADIUS; dy++) {
        for (int dx = -RADIUS; dx <= RADIUS; dx++) {
            int xx = min(max(x + dx, 0), p.size[0] - 1);
            int yy = min(max(y + dy, 0), p.size[1] - 1);
            acc += p.weights[dy + RADIUS][dx + RADIUS] * p.src[yy * p.size[0] + xx];
        }
    }
    p.dst[y * p.size[0] + x] = p.gain * acc;
}

int main(int argc, char** argv) {
    FilterParams p;
    p.size[0] = argc > 1 ? atoi(argv[1]) : 1920;
    p.size[1] = argc > 2 ? atoi(argv[2]) : 1080;
    p.gain = 1.0f;
    float sum = 0;
    for (int i = 0; i < 2 * RADIUS + 1; i++)
        for (int j = 0; j < 2 * RADIUS + 1; j++) { p.weights[i][j] = 1.0f / (1 + abs(i - RADIUS) + abs(j - RADIUS)); sum += p.weights[i][j]; }
    for (int i = 0; i < 2 * RADIUS + 1; i++)
        for (int j = 0; j < 2 * RADIUS + 1; j++) p.weights[i][j] /= sum;

    size_t bytes = sizeof(float) * p.size[0] * p.size[1];
    std::vector<float> image(p.size[0] * p.size[1], 0.5f), result(p.size[0] * p.size[1]);
    float *d_src, *d_dst;
    CHECK(cudaMalloc(&d_src, bytes));
    CHECK(cudaMalloc(&d_dst, bytes));
    CHECK(cudaMemcpy(d_src, image.data(), bytes, cudaMemcpyHostToDevice));
    p.src = d_src;
    p.dst = d_dst;
    dim3 threads(32, 8);
    dim3 blocks((p.size[0] + threads.x - 1) / threads.x, (p.size[1] + threads.y - 1) / threads.y);
    filter<<<blocks, threads>>>(p);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(result.data(), d_dst, bytes, cudaMemcpyDeviceToHost));
    printf("%f\n", result[0]);
    cudaFree(d_src); cudaFree(d_dst);
    return 0;
}
