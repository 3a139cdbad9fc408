// "Edges in five minutes": blur, then Sobel, then a threshold. From the blog post; build with nvcc -std=c++17 sobel.cu
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Image {
    int width = 0, height = 0;
    std::vector<uint8_t> pixels;
    Image(int w, int h) : width(w), height(h), pixels(static_cast<size_t>(w) * h) {}
};

inline void cuda(cudaError_t status, const char* what) {
    if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

constexpr dim3 kBlock{16, 16, 1};

dim3 gridFor(int width, int height) {
    return dim3{(width + kBlock.x - 1) / kBlock.x, (height + kBlock.y - 1) / kBlock.y, 1};
}

template <int R, typename Out>
__global__ void blur(const uint8_t* in, size_t inPitch, Out* out, size_t outPitch, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.f;
    int n = 0;
    for (int dy = -R; dy <= R; ++dy)
        for (int dx = -R; dx <= R; ++dx) {
            int sx = min(max(x + dx, 0), width - 1);
            int sy = min(max(y + dy, 0), height - 1);
            sum += in[sy * inPitch + sx];
            ++n;
        }
    Out* row = (Out*)((char*)out + y * outPitch);
    row[x] = static_cast<Out>(sum / n);
}

__device__ inline float at(const float* in, size_t pitch, int x, int y, int width, int height) {
    x = min(max(x, 0), width - 1);
    y = min(max(y, 0), height - 1);
    return ((const float*)((const char*)in + y * pitch))[x];
}

__global__ void sobel(const float* in, size_t pitch, float* mag, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float gx = at(in, pitch, x + 1, y - 1, width, height) - at(in, pitch, x - 1, y - 1, width, height)
             + 2 * (at(in, pitch, x + 1, y, width, height) - at(in, pitch, x - 1, y, width, height))
             + at(in, pitch, x + 1, y + 1, width, height) - at(in, pitch, x - 1, y + 1, width, height);
    float gy = at(in, pitch, x - 1, y + 1, width, height) - at(in, pitch, x - 1, y - 1, width, height)
             + 2 * (at(in, pitch, x, y + 1, width, height) - at(in, pitch, x, y - 1, width, height))
             + at(in, pitch, x + 1, y + 1, width, height) - at(in, pitch, x + 1, y - 1, width, height);
    mag[y * width + x] = sqrtf(gx * gx + gy * gy);
}

__global__ void threshold(const float* mag, uint8_t* edges, int n, float limit) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        edges[i] = mag[i] > limit ? 255 : 0;
}

class DeviceImage {
public:
    DeviceImage(int w, int h) { cuda(cudaMallocPitch(&data_, &pitch_, w, h), "cudaMallocPitch"); }
    ~DeviceImage() { cudaFree(data_); }
    uint8_t* data() const { return data_; }
    size_t pitch() const { return pitch_; }
private:
    uint8_t* data_ = nullptr;
    size_t pitch_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
    const int width = argc > 1 ? std::atoi(argv[1]) : 1000;
    const int height = argc > 2 ? std::stoi(argv[2]) : 750;
    const float limit = argc > 3 ? std::stof(argv[3]) : 80.f;
    Image in(width, height), edges(width, height);
    for (auto& p : in.pixels) p = rand() & 255;

    uint8_t *d_in, *d_edges;
    float *d_blurred, *d_mag;
    size_t inPitch, blurPitch;
    cuda(cudaMallocPitch((void**)&d_in, &inPitch, width * sizeof(uint8_t), height), "in");
    cuda(cudaMallocPitch((void**)&d_blurred, &blurPitch, width * sizeof(float), height), "blurred");
    cuda(cudaMalloc(&d_mag, width * height * sizeof(float)), "mag");
    cuda(cudaMalloc(&d_edges, width * height), "edges");

    cudaStream_t stream;
    cuda(cudaStreamCreate(&stream), "stream");
    cuda(cudaMemcpy2DAsync(d_in, inPitch, in.pixels.data(), width, width, height, cudaMemcpyHostToDevice, stream), "copy");

    const dim3 grid = gridFor(width, height);
    const int n = width * height;
    blur<2, float><<<grid, kBlock, 0, stream>>>(d_in, inPitch, d_blurred, blurPitch, width, height);
    sobel<<<grid, kBlock, 0, stream>>>(d_blurred, blurPitch, d_mag, width, height);
    threshold<<<std::min((n + 255) / 256, 1024), 256, 0, stream>>>(d_mag, d_edges, n, limit);

    cuda(cudaMemcpyAsync(edges.pixels.data(), d_edges, n, cudaMemcpyDeviceToHost, stream), "back");
    cuda(cudaStreamSynchronize(stream), "sync");
    size_t count = 0;
    for (auto e : edges.pixels) count += e == 255;
    std::cout << count << " edge pixels of " << n << "\n";

    // and the same without the wide blur, for comparison
    blur<1, uint8_t><<<grid, kBlock, 0, stream>>>(d_in, inPitch, d_edges, width, width, height);
    cuda(cudaMemcpyAsync(edges.pixels.data(), d_edges, n, cudaMemcpyDeviceToHost, stream), "back");
    cuda(cudaStreamSynchronize(stream), "sync");
    for (int i = 0; i < 5; i++) printf("%d ", edges.pixels[i]);
    printf("\n");
    cudaFree(d_in); cudaFree(d_blurred); cudaFree(d_mag); cudaFree(d_edges);
    return 0;
} catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
}
