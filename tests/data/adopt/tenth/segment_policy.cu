// Segment sums with a tuning policy, in the manner of CUB.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(call)                                                                     \
    do {                                                                                \
        cudaError_t err_ = (call);                                                      \
        if (err_ != cudaSuccess) {                                                      \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err_)); \
            exit(EXIT_FAILURE);                                                         \
        }                                                                               \
    } while (0)

template <int THREADS, int ITEMS>
struct SumPolicy {
    static constexpr int BLOCK_THREADS = THREADS;
    static constexpr int ITEMS_PER_THREAD = ITEMS;
    static constexpr int TILE_ITEMS = BLOCK_THREADS * ITEMS_PER_THREAD;
};

template <typename PolicyT, typename T>
struct AgentSum {
    using Policy = PolicyT;
    enum { WARPS = Policy::BLOCK_THREADS / 32 };

    __device__ static T WarpSum(T v) {
        for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
        return v;
    }
};

template <typename PolicyT, typename T>
__global__ void __launch_bounds__(PolicyT::BLOCK_THREADS)
TileSumKernel(const T* __restrict__ in, T* __restrict__ out, int n) {
    using Agent = AgentSum<PolicyT, T>;
    __shared__ T warp_sums[Agent::WARPS];
    const int tile = blockIdx.x * PolicyT::TILE_ITEMS;
    T acc = T(0);
#pragma unroll
    for (int i = 0; i < PolicyT::ITEMS_PER_THREAD; ++i) {
        int idx = tile + i * PolicyT::BLOCK_THREADS + threadIdx.x;
        if (idx < n) acc += in[idx];
    }
    acc = Agent::WarpSum(acc);
    if ((threadIdx.x & 31) == 0) warp_sums[threadIdx.x >> 5] = acc;
    __syncthreads();
    if (threadIdx.x == 0) {
        T total = T(0);
        for (int w = 0; w < Agent::WARPS; ++w) total += warp_sums[w];
        out[blockIdx.x] = total;
    }
}

using DefaultPolicy = SumPolicy<128, 8>;

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1 << 20;
    int tiles = (n + DefaultPolicy::TILE_ITEMS - 1) / DefaultPolicy::TILE_ITEMS;
    std::vector<float> h_in(n), h_out(tiles);
    for (int i = 0; i < n; ++i) h_in[i] = static_cast<float>(rand()) / RAND_MAX;

    float *d_in = nullptr, *d_out = nullptr;
    CHECK(cudaMalloc(&d_in, n * sizeof(float)));
    CHECK(cudaMalloc(&d_out, tiles * sizeof(float)));
    CHECK(cudaMemcpy(d_in, h_in.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    TileSumKernel<DefaultPolicy, float><<<tiles, DefaultPolicy::BLOCK_THREADS>>>(d_in, d_out, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(h_out.data(), d_out, tiles * sizeof(float), cudaMemcpyDeviceToHost));
    double sum = 0;
    for (float v : h_out) sum += v;
    printf("sum = %f\n", sum);
    cudaFree(d_in);
    cudaFree(d_out);
    return 0;
}
