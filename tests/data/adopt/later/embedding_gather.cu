// Token embedding plus position embedding, fp32, ids are int64 as the tokenizer returns them.
#include <cuda_runtime.h>
#include <cstdint>
#include <vector>
#include <iostream>

struct Config { int vocab = 5000; int dim = 512; int seq = 1024; };

__global__ void embed(const int64_t* ids, const float* wte, const float* wpe, float* out, int seq, int dim)
{
    int t = blockIdx.x;
    const float* row = wte + ids[t] * dim;
    for (int d = threadIdx.x; d < dim; d += blockDim.x)
        out[t * dim + d] = row[d] + wpe[t * dim + d];
}

int main()
{
    Config cfg;
    const int vocab = 5000, dim = 512, seq = 1024;
    std::vector<int64_t> ids(seq);
    for (int i = 0; i < seq; ++i) ids[i] = (i * 7919) % vocab;
    std::vector<float> wte(vocab * dim, 0.5f), wpe(seq * dim, 0.25f), out(seq * dim);
    int64_t* d_ids;
    float *d_wte, *d_wpe, *d_out;
    cudaMalloc(&d_ids, ids.size() * sizeof(int64_t));
    cudaMalloc(&d_wte, wte.size() * sizeof(float));
    cudaMalloc(&d_wpe, wpe.size() * sizeof(float));
    cudaMalloc(&d_out, out.size() * sizeof(float));
    cudaMemcpy(d_ids, ids.data(), ids.size() * sizeof(int64_t), cudaMemcpyHostToDevice);
    cudaMemcpy(d_wte, wte.data(), wte.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_wpe, wpe.data(), wpe.size() * sizeof(float), cudaMemcpyHostToDevice);
    embed<<<seq, 64>>>(d_ids, d_wte, d_wpe, d_out, seq, dim);
    cudaDeviceSynchronize();
    cudaMemcpy(out.data(), d_out, out.size() * sizeof(float), cudaMemcpyDeviceToHost);
    std::cout << out[0] << " " << cfg.vocab << "\n";
}
