#include <cstdio>
#include <cstdlib>
#include <omp.h>
#include <cuda_runtime.h>
#include <cuda_profiler_api.h>
#include <nvToolsExt.h>

#define N (1 << 22)
#define NBINS 64
#define cudaTry(ans) { if ((ans) != cudaSuccess) { fprintf(stderr, "oops %d\n", __LINE__); exit(1); } }

__global__ void hist_atomics(const unsigned char *data, unsigned int *bins, long n)
{
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    long stride = (long)blockDim.x * gridDim.x;
    while (i < n) {
        atomicAdd(&bins[data[i] >> 2], 1u);
        i += stride;
    }
}

struct ctx_t {
    int id;
    cudaStream_t stream;
    unsigned char *h_data, *d_data;
    unsigned int *d_bins;
    unsigned int h_bins[NBINS];
    long n;
};

static void ctx_init(struct ctx_t *c, int id, long n)
{
    c->id = id;
    c->n = n;
    cudaTry(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
    cudaTry(cudaMallocHost((void **)&c->h_data, n));
    cudaTry(cudaMallocAsync((void **)&c->d_data, n, c->stream));
    cudaTry(cudaMallocAsync((void **)&c->d_bins, NBINS * sizeof(unsigned int), c->stream));
#pragma omp parallel for
    for (long i = 0; i < n; i++) c->h_data[i] = (unsigned char)(i * 2654435761u >> 13);
}

static void ctx_run(struct ctx_t *c)
{
    nvtxRangePushA("hist");
    cudaTry(cudaMemcpyAsync(c->d_data, c->h_data, c->n, cudaMemcpyHostToDevice, c->stream));
    cudaTry(cudaMemsetAsync(c->d_bins, 0, NBINS * sizeof(unsigned int), c->stream));
    int blocks = 120;
    hist_atomics<<<blocks, 256, 0, c->stream>>>(c->d_data, c->d_bins, c->n);
    cudaTry(cudaMemcpyAsync(c->h_bins, c->d_bins, sizeof(c->h_bins), cudaMemcpyDeviceToHost, c->stream));
    cudaTry(cudaStreamSynchronize(c->stream));
    nvtxRangePop();
}

int main(int argc, char **argv)
{
    int ndev = 0;
    cudaTry(cudaGetDeviceCount(&ndev));
    if (ndev > 2) ndev = 2;
    struct ctx_t *ctx = (struct ctx_t *)calloc(ndev, sizeof(struct ctx_t));
#pragma omp parallel for num_threads(ndev)
    for (int d = 0; d < ndev; d++) {
        cudaTry(cudaSetDevice(d));
        ctx_init(&ctx[d], d, N / ndev);
        ctx_run(&ctx[d]);
    }
    unsigned long total = 0;
    for (int d = 0; d < ndev; d++)
        for (int b = 0; b < NBINS; b++) total += ctx[d].h_bins[b];
    printf("%lu of %d\n", total, N);
    return total != N;
}
