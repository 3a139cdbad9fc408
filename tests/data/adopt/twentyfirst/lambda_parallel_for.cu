// mini "Kokkos": parallel_for with device lambdas.   nvcc --extended-lambda
#include <cuda_runtime.h>
#include <chrono>
#include <cstdio>
#include <vector>
#include <cmath>

struct Range2 { int nx, ny; };

template <typename Functor>
__global__ void for_each_2d(Range2 r, Functor f)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < r.nx && j < r.ny) f(i, j);
}

template <typename Functor>
void parallel_for(const Range2& r, const Functor& f)
{
    const dim3 threads{32, 4};
    const dim3 blocks{static_cast<unsigned>((r.nx + threads.x - 1) / threads.x),
                      static_cast<unsigned>((r.ny + threads.y - 1) / threads.y)};
    for_each_2d<<<blocks, threads>>>(r, f);
}

template <typename T>
struct View2D {
    T* p; int nx;
    __host__ __device__ T& operator()(int i, int j) const { return p[j * nx + i]; }
};

int main()
{
    const int nx = 1024, ny = 768;
    const float dt = 0.02f, g = 9.81f;
    std::vector<float> h(nx * ny), u(nx * ny, 0.0f);
    for (int j = 0; j < ny; ++j)
        for (int i = 0; i < nx; ++i)
            h[j * nx + i] = 1.0f + 0.1f * std::exp(-0.001f * ((i - nx / 2) * (i - nx / 2) + (j - ny / 2) * (j - ny / 2)));

    float *dh, *du;
    cudaMalloc(&dh, sizeof(float) * nx * ny);
    cudaMalloc(&du, sizeof(float) * nx * ny);
    cudaMemcpy(dh, h.data(), sizeof(float) * nx * ny, cudaMemcpyHostToDevice);
    cudaMemcpy(du, u.data(), sizeof(float) * nx * ny, cudaMemcpyHostToDevice);

    View2D<float> H{dh, nx}, U{du, nx};
    auto t0 = std::chrono::steady_clock::now();
    parallel_for({nx, ny}, [=] __device__(int i, int j) {
        const int ip = i + 1 < nx ? i + 1 : 0;
        const int im = i > 0 ? i - 1 : nx - 1;
        const int jp = j + 1 < ny ? j + 1 : 0;
        const int jm = j > 0 ? j - 1 : ny - 1;
        const float lap = H(ip, j) + H(im, j) + H(i, jp) + H(i, jm) - 4.0f * H(i, j);
        U(i, j) += dt * g * lap;
    });
    cudaDeviceSynchronize();
    auto t1 = std::chrono::steady_clock::now();
    std::printf("%.3f ms\n", std::chrono::duration<double, std::milli>(t1 - t0).count());
    cudaMemcpy(u.data(), du, sizeof(float) * nx * ny, cudaMemcpyDeviceToHost);
    std::printf("u[0]=%g\n", u[0]);
    cudaFree(dh);
    cudaFree(du);
    return 0;
}
