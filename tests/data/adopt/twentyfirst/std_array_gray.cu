#include <array>
#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <cuda_runtime.h>

using namespace std;
using namespace std::chrono_literals;

constexpr auto WIDTH = 640u, HEIGHT = 480u;
constexpr std::size_t PIXELS = std::size_t{WIDTH} * HEIGHT;
static constexpr float kWeights[3] = {0.299f, 0.587f, 0.114f};

__device__ __constant__ float d_weights[3];

__global__ __launch_bounds__(256) void to_gray(const std::uint8_t* __restrict__ rgb, float* __restrict__ gray, std::size_t n)
{
    const auto stride = static_cast<std::size_t>(blockDim.x) * gridDim.x;
    for (auto i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
        const auto r = rgb[3 * i], g = rgb[3 * i + 1], b = rgb[3 * i + 2];
        gray[i] = (d_weights[0] * r + d_weights[1] * g + d_weights[2] * b) * (1.0f / 255.0f);
    }
}

template <typename T>
struct cuda_deleter {
    void operator()(T* p) const noexcept { cudaFree(p); }
};

template <typename T>
using device_ptr = std::unique_ptr<T[], cuda_deleter<T>>;

template <typename T>
[[nodiscard]] device_ptr<T> make_device(std::size_t n)
{
    T* p{};
    if (auto err = cudaMalloc(&p, n * sizeof(T)); err != cudaSuccess) throw std::bad_alloc{};
    return device_ptr<T>{p};
}

int main()
{
    auto image = std::make_unique<std::array<std::uint8_t, 3 * PIXELS>>();
    std::generate(image->begin(), image->end(), [v = 0]() mutable { return static_cast<std::uint8_t>(v += 7); });
    auto gray = std::make_unique<std::array<float, PIXELS>>();

    const auto d_rgb = make_device<std::uint8_t>(image->size());
    const auto d_gray = make_device<float>(gray->size());
    cudaMemcpyToSymbol(d_weights, kWeights, sizeof kWeights);
    cudaMemcpy(d_rgb.get(), image->data(), image->size(), cudaMemcpyHostToDevice);

    const auto div_up = [](auto a, auto b) { return (a + b - 1) / b; };
    const auto t0 = std::chrono::high_resolution_clock::now();
    to_gray<<<div_up(PIXELS, std::size_t{256}), 256>>>(d_rgb.get(), d_gray.get(), PIXELS);
    cudaDeviceSynchronize();
    const auto t1 = std::chrono::high_resolution_clock::now();
    cudaMemcpy(gray->data(), d_gray.get(), sizeof(float) * gray->size(), cudaMemcpyDeviceToHost);
    std::cout << (t1 - t0) / 1us << " us, " << *std::max_element(gray->cbegin(), gray->cend()) << '\n';
}
