// Variance of each row with cooperative groups; one warp-sized tile per row.
// Part of "reductions: seven ways", version 5.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <iostream>
#include <random>
#include <vector>
#include <memory>

namespace cg = cooperative_groups;

namespace {
constexpr unsigned kThreads = 256;
constexpr unsigned kRowsPerBlock = kThreads / 32;
}

__global__ void row_variance(float* __restrict__ out, const float* __restrict__ in, unsigned rows, unsigned cols)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
    unsigned row = block.group_index().x * tile.meta_group_size() + tile.meta_group_rank();
    if (row >= rows) return;

    const float* p = in + static_cast<size_t>(row) * cols;
    float sum = 0.0f;
    for (unsigned c = tile.thread_rank(); c < cols; c += tile.size()) sum += p[c];
    const float mean = cg::reduce(tile, sum, cg::plus<float>()) / cols;

    float sq = 0.0f;
    for (unsigned c = tile.thread_rank(); c < cols; c += tile.size()) {
        const float d = p[c] - mean;
        sq += d * d;
    }
    sq = cg::reduce(tile, sq, cg::plus<float>());
    if (tile.thread_rank() == 0) out[row] = sq / cols;
}

int main(int argc, char** argv)
{
    const unsigned rows = argc > 1 ? std::stoul(argv[1]) : 8192;
    const unsigned cols = argc > 2 ? std::stoul(argv[2]) : 1024;

    std::mt19937 gen(42);
    std::normal_distribution<float> dist(0.0f, 1.0f);
    std::vector<float> host(static_cast<size_t>(rows) * cols);
    for (float& v : host) v = dist(gen);

    float* d_in = nullptr;
    float* d_out = nullptr;
    if (cudaMalloc(&d_in, host.size() * sizeof(float)) != cudaSuccess ||
        cudaMalloc(&d_out, rows * sizeof(float)) != cudaSuccess) {
        std::cerr << "out of memory\n";
        return 1;
    }
    cudaMemcpy(d_in, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice);

    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    cudaEventRecord(start);
    row_variance<<<(rows + kRowsPerBlock - 1) / kRowsPerBlock, kThreads>>>(d_out, d_in, rows, cols);
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    float ms = 0;
    cudaEventElapsedTime(&ms, start, stop);

    auto result = std::make_unique<float[]>(rows);
    cudaMemcpy(result.get(), d_out, rows * sizeof(float), cudaMemcpyDeviceToHost);
    std::cout << "variance of row 0: " << result[0] << " (" << ms << " ms)\n";
    cudaFree(d_in);
    cudaFree(d_out);
    return 0;
}
