// Non-uniform DFT (type 2): f(x_j) = sum_k c_k exp(-i k x_j).  Direct sum, to test the NUFFT against.
#include <thrust/complex.h>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <iostream>
#include <random>
#include <chrono>
#include <stdexcept>
#include <string>

#include <cuComplex.h>
using cplx = cuFloatComplex;

#define CUDA_THROW(x)                                                                              \
    if (cudaError_t err = (x); err != cudaSuccess)                                                 \
        throw std::runtime_error(std::string(__func__) + ": " + cudaGetErrorString(err));

constexpr float PI = 3.14159265358979323846f;

__global__ void nudft2(const cplx* __restrict__ coef, const float* __restrict__ x, cplx* __restrict__ f,
                       unsigned modes, unsigned points)
{
    unsigned j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= points) return;
    cplx sum = make_cuFloatComplex(0.f, 0.f);
    for (unsigned k = 0; k < modes; ++k) {
        const float phase = -(float(k) - float(modes / 2)) * x[j];
        sum = cuCaddf(sum, cuCmulf(coef[k], make_cuFloatComplex(cosf(phase), sinf(phase))));
    }
    f[j] = sum;
}

struct Plan {
    unsigned modes, points;
    thrust::device_vector<float> x;

    Plan(unsigned modes_, const thrust::host_vector<float>& nodes) : modes(modes_), points(nodes.size()), x(nodes) {}

    void execute(const thrust::device_vector<cplx>& c, thrust::device_vector<cplx>& f) const
    {
        constexpr unsigned threads = 128;
        nudft2<<<(points + threads - 1) / threads, threads>>>(thrust::raw_pointer_cast(c.data()),
                                                              thrust::raw_pointer_cast(x.data()),
                                                              thrust::raw_pointer_cast(f.data()), modes, points);
        CUDA_THROW(cudaGetLastError());
        CUDA_THROW(cudaDeviceSynchronize());
    }
};

int main(int argc, char** argv)
{
    const unsigned modes = argc > 1 ? std::stoul(argv[1]) : 256;
    const unsigned points = argc > 2 ? std::stoul(argv[2]) : 4096;

    std::mt19937 rng(42);
    std::uniform_real_distribution<float> uniform(-PI, PI);
    thrust::host_vector<float> nodes(points);
    thrust::host_vector<cplx> coefficients(modes);
    for (auto& n : nodes) n = uniform(rng);
    for (auto& c : coefficients) c = make_cuFloatComplex(uniform(rng), uniform(rng));

    Plan plan(modes, nodes);
    thrust::device_vector<cplx> c = coefficients;
    thrust::device_vector<cplx> f(points);

    auto t0 = std::chrono::steady_clock::now();
    plan.execute(c, f);
    auto t1 = std::chrono::steady_clock::now();
    std::cout << modes << " modes, " << points << " points: "
              << std::chrono::duration<double, std::milli>(t1 - t0).count() << " ms\n";
    thrust::host_vector<cplx> result = f;
    std::cout << "f[0] = " << result[0] << std::endl;
    return 0;
}
