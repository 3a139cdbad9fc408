// Tiny N-body toy, C++17. Weekend project, not meant to be fast.
#include <cuda_runtime.h>
#include <cstdlib>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
#include <chrono>

namespace gpu {
inline void check(cudaError_t e, const char* what)
{
    if (e != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(e));
}
}

constexpr float kSoftening = 1e-3f;
constexpr float kG = 6.674e-2f;
constexpr int kThreads = 128;

__global__ void accelerations(const float* __restrict__ px, const float* __restrict__ py,
                              const float* __restrict__ mass, float* ax, float* ay, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sx = 0.f, sy = 0.f;
    for (int j = 0; j < n; ++j) {
        const float dx = px[j] - px[i];
        const float dy = py[j] - py[i];
        const float d2 = dx * dx + dy * dy + kSoftening;
        const float inv = 1.0f / sqrtf(d2);
        const float f = kG * mass[j] * inv * inv * inv;
        sx += f * dx;
        sy += f * dy;
    }
    ax[i] = sx; ay[i] = sy;
}

__global__ void integrate(float* px, float* py, float* vx, float* vy,
                          const float* ax, const float* ay, float dt, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    vx[i] += dt * ax[i]; vy[i] += dt * ay[i];
    px[i] += dt * vx[i]; py[i] += dt * vy[i];
}

class ParticleSystem {
public:
    explicit ParticleSystem(int count) : n_(count)
    {
        for (float** p : {&px_, &py_, &vx_, &vy_, &ax_, &ay_, &mass_})
            gpu::check(cudaMalloc(p, n_ * sizeof(float)), "cudaMalloc");
        std::mt19937 gen(42);
        std::uniform_real_distribution<float> uni(-1.f, 1.f);
        std::vector<float> host(n_);
        for (float* p : {px_, py_, vx_, vy_, mass_}) {
            for (auto& h : host) h = uni(gen);
            gpu::check(cudaMemcpy(p, host.data(), n_ * sizeof(float), cudaMemcpyHostToDevice), "copy");
        }
    }
    ~ParticleSystem()
    {
        for (float* p : {px_, py_, vx_, vy_, ax_, ay_, mass_}) cudaFree(p);
    }
    ParticleSystem(const ParticleSystem&) = delete;
    ParticleSystem& operator=(const ParticleSystem&) = delete;

    void step(float dt)
    {
        const int blocks = (n_ + kThreads - 1) / kThreads;
        accelerations<<<blocks, kThreads>>>(px_, py_, mass_, ax_, ay_, n_);
        integrate<<<blocks, kThreads>>>(px_, py_, vx_, vy_, ax_, ay_, dt, n_);
    }
    std::vector<float> xs() const
    {
        std::vector<float> out(n_);
        cudaMemcpy(out.data(), px_, n_ * sizeof(float), cudaMemcpyDeviceToHost);
        return out;
    }

private:
    int n_;
    float *px_{}, *py_{}, *vx_{}, *vy_{}, *ax_{}, *ay_{}, *mass_{};
};

int main(int argc, char** argv)
{
    const int n = argc > 1 ? std::stoi(argv[1]) : 4096;
    const int steps = argc > 2 ? std::stoi(argv[2]) : 100;
    ParticleSystem sys(n);
    auto t0 = std::chrono::steady_clock::now();
    for (int s = 0; s < steps; ++s) sys.step(0.01f);
    cudaDeviceSynchronize();
    auto t1 = std::chrono::steady_clock::now();
    std::cout << n << " bodies, " << std::chrono::duration<double, std::milli>(t1 - t0).count() / steps << " ms per step, x[0] = " << sys.xs()[0] << "\n";
}
