// Benchmark: masked softmax of attention scores, batch split over streams, pinned host memory.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#define CK(e) do { if ((e) != cudaSuccess) { std::printf("failed: %s (line %d)\n", #e, __LINE__); std::abort(); } } while (0)

template <int BLOCK_SIZE>
__global__ void masked_softmax(const float* scores, const unsigned char* mask, float* probs, int cols, float scale)
{
    __shared__ float buf[BLOCK_SIZE];
    const size_t base = (size_t)blockIdx.x * cols;
    const int tid = threadIdx.x;

    float m = -1e30f;
    for (int c = tid; c < cols; c += BLOCK_SIZE) {
        float v = mask[base + c] ? scores[base + c] * scale : -1e30f;
        m = fmaxf(m, v);
    }
    buf[tid] = m;
    __syncthreads();
    for (int s = BLOCK_SIZE / 2; s > 0; s /= 2) {
        if (tid < s) buf[tid] = fmaxf(buf[tid], buf[tid + s]);
        __syncthreads();
    }
    m = buf[0];
    __syncthreads();

    float sum = 0.f;
    for (int c = tid; c < cols; c += BLOCK_SIZE) {
        float v = mask[base + c] ? scores[base + c] * scale : -1e30f;
        sum += expf(v - m);
    }
    buf[tid] = sum;
    __syncthreads();
    for (int s = BLOCK_SIZE / 2; s > 0; s /= 2) {
        if (tid < s) buf[tid] += buf[tid + s];
        __syncthreads();
    }
    sum = buf[0];

    for (int c = tid; c < cols; c += BLOCK_SIZE) {
        float v = mask[base + c] ? scores[base + c] * scale : -1e30f;
        probs[base + c] = expf(v - m) / sum;
    }
}

int main(int argc, char** argv)
{
    const int batch = 8, heads = 8;
    int seq = 256;
    if (argc >= 2) seq = std::max(32, std::atoi(argv[1]));
    const int num_streams = 4;
    const int rows_per_stream = batch * heads * seq / num_streams;
    const size_t elems = (size_t)batch * heads * seq * seq;
    const size_t chunk = elems / num_streams;

    float *h_scores, *h_probs;
    unsigned char* h_mask;
    CK(cudaMallocHost(&h_scores, elems * sizeof(float)));
    CK(cudaMallocHost(&h_probs, elems * sizeof(float)));
    CK(cudaHostAlloc(&h_mask, elems, cudaHostAllocDefault));
    for (size_t i = 0; i < elems; ++i) {
        h_scores[i] = (float)std::rand() / RAND_MAX - 0.5f;
        h_mask[i] = (i % seq) <= (i / seq) % seq;  // causal
    }

    float *d_scores, *d_probs;
    unsigned char* d_mask;
    CK(cudaMalloc(&d_scores, elems * sizeof(float)));
    CK(cudaMalloc(&d_probs, elems * sizeof(float)));
    CK(cudaMalloc(&d_mask, elems));

    cudaStream_t streams[num_streams];
    for (int s = 0; s < num_streams; ++s) CK(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));

    for (int s = 0; s < num_streams; ++s) {
        const size_t off = s * chunk;
        CK(cudaMemcpyAsync(d_scores + off, h_scores + off, chunk * sizeof(float), cudaMemcpyHostToDevice, streams[s]));
        CK(cudaMemcpyAsync(d_mask + off, h_mask + off, chunk, cudaMemcpyHostToDevice, streams[s]));
        masked_softmax<128><<<rows_per_stream, 128, 0, streams[s]>>>(d_scores + off, d_mask + off, d_probs + off, seq, 0.125f);
        CK(cudaGetLastError());
        CK(cudaMemcpyAsync(h_probs + off, d_probs + off, chunk * sizeof(float), cudaMemcpyDeviceToHost, streams[s]));
    }
    CK(cudaDeviceSynchronize());
    std::printf("%f\n", h_probs[0]);
    for (auto& s : streams) cudaStreamDestroy(s);
    return 0;
}
