// dot product of many pairs of vectors with cooperative groups
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <vector>
#include <cstdlib>

namespace cg = cooperative_groups;

template <class F>
void check(F err, const char* expr, int line)
{
    if (err) { std::fprintf(stderr, "%s failed at line %d\n", expr, line); std::abort(); }
}
#define CU(x) check((x), #x, __LINE__)

__global__ void batched_dot(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int batch, int len)
{
    extern __shared__ float partial[];
    cg::thread_block cta = cg::this_thread_block();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(cta);

    for (int v = blockIdx.x; v < batch; v += gridDim.x) {
        float sum = 0.f;
        for (int i = cta.thread_rank(); i < len; i += cta.size())
            sum += a[(size_t)v * len + i] * b[(size_t)v * len + i];
        sum = cg::reduce(tile, sum, cg::plus<float>());
        if (tile.thread_rank() == 0) partial[tile.meta_group_rank()] = sum;
        cg::sync(cta);
        if (cta.thread_rank() == 0) {
            float total = 0.f;
            for (unsigned i = 0; i < tile.meta_group_size(); ++i) total += partial[i];
            out[v] = total;
        }
        cta.sync();
    }
}

size_t smem_for(int block) { return ((block + 31) / 32) * sizeof(float); }

int main()
{
    int batch = 3000, len = 700;
    std::vector<float> a(size_t(batch) * len, 0), b(a);
    for (auto& x : a) x = rand() / float(RAND_MAX);
    for (auto& x : b) x = rand() / float(RAND_MAX);

    float *da, *db, *dout;
    CU(cudaMalloc(&da, a.size() * sizeof(float)));
    CU(cudaMalloc(&db, b.size() * sizeof(float)));
    CU(cudaMalloc(&dout, batch * sizeof(float)));
    CU(cudaMemcpy(da, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
    CU(cudaMemcpy(db, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));

    int minGrid = 0, block = 0;
    CU(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&minGrid, &block, batched_dot, smem_for, 256));
    int perSM = 0, sms = 0;
    CU(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&perSM, batched_dot, block, smem_for(block)));
    CU(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    int grid = perSM * sms < batch ? perSM * sms : batch;

    void* args[] = {&da, &db, &dout, &batch, &len};
    CU(cudaLaunchKernel((void*)batched_dot, dim3(grid), dim3(block), args, smem_for(block), 0));
    CU(cudaDeviceSynchronize());

    std::vector<float> out(batch);
    CU(cudaMemcpy(out.data(), dout, batch * sizeof(float), cudaMemcpyDeviceToHost));
    printf("out[0]=%f out[last]=%f\n", out.front(), out.back());
    CU(cudaFree(da)); CU(cudaFree(db)); CU(cudaFree(dout));
}
