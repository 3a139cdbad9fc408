#include <cuda_runtime.h>
#include <array>
#include <iostream>
#include <random>
#include <string_view>
#include <optional>
#include <tuple>

namespace sim {
using Real = float;

struct alignas(16) Body { Real x, y, z, m; };

struct Options {
    unsigned n = 4096;
    Real dt = 1e-3f;
    Real soft = 1e-2f;
    bool verbose = false;
};

__global__ void accelerate(Body const* __restrict__ bodies, Real* __restrict__ ax, Real* __restrict__ ay, Real* __restrict__ az,
                           unsigned n, Real soft2)
{
    extern __shared__ Body tile[];
    unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
    Body const me = i < n ? bodies[i] : Body{};
    Real x = 0, y = 0, z = 0;
    for (unsigned base = 0; base < n; base += blockDim.x) {
        tile[threadIdx.x] = base + threadIdx.x < n ? bodies[base + threadIdx.x] : Body{};
        __syncthreads();
        for (unsigned k = 0; k < blockDim.x; ++k) {
            Real const dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
            Real const inv = rsqrtf(dx * dx + dy * dy + dz * dz + soft2);
            Real const w = tile[k].m * inv * inv * inv;
            x += w * dx;
            y += w * dy;
            z += w * dz;
        }
        __syncthreads();
    }
    if (i < n) {
        ax[i] = x;
        ay[i] = y;
        az[i] = z;
    }
}

auto parse(int argc, char** argv) -> std::optional<Options>
{
    Options o;
    for (int i = 1; i < argc; ++i) {
        std::string_view const arg = argv[i];
        if (arg == "-n" && i + 1 < argc) o.n = static_cast<unsigned>(std::atoi(argv[++i]));
        else if (arg == "-v") o.verbose = true;
        else return std::nullopt;
    }
    return o;
}

template <class T>
class Buffer {
  public:
    explicit Buffer(std::size_t n) : n_{n} { cudaMalloc(&p_, n * sizeof(T)); }
    ~Buffer() { cudaFree(p_); }
    [[nodiscard]] T* get() noexcept { return p_; }
    [[nodiscard]] auto size() const noexcept { return n_; }
    auto operator=(std::vector<T> const& v) -> Buffer& { cudaMemcpy(p_, v.data(), n_ * sizeof(T), cudaMemcpyHostToDevice); return *this; }
    [[nodiscard]] auto host() const -> std::vector<T> { std::vector<T> v(n_); cudaMemcpy(v.data(), p_, n_ * sizeof(T), cudaMemcpyDeviceToHost); return v; }
  private:
    T* p_{};
    std::size_t n_;
};
}  // namespace sim

int main(int argc, char** argv)
{
    auto const options = sim::parse(argc, argv);
    if (!options) { std::cerr << "usage\n"; return 1; }
    auto const& [n, dt, soft, verbose] = *options;

    std::vector<sim::Body> h(n);
    std::mt19937 rng{7};
    std::uniform_real_distribution<float> u{-1, 1};
    for (auto& b : h) b = {u(rng), u(rng), u(rng), 1.0f / n};
    sim::Buffer<sim::Body> bodies{n};
    bodies = h;
    std::array<sim::Buffer<float>, 3> acc{sim::Buffer<float>{n}, sim::Buffer<float>{n}, sim::Buffer<float>{n}};

    constexpr unsigned block = 128;
    sim::accelerate<<<(n + block - 1) / block, block, block * sizeof(sim::Body)>>>(
        bodies.get(), acc[0].get(), acc[1].get(), acc[2].get(), n, soft * soft);
    cudaDeviceSynchronize();
    auto const a = acc[0].host();
    std::cout << a.front() << '\n';
}
